"""A job whose ops ask a GPU for FLOP, under a policy: on the virtual clock it takes exact times."""

from pathlib import Path
from typing import Any

import yaml

from labkit.device.machine import Figure, Machine
from labkit.knobs import Knobs, knob
from labkit.runner.job import Job, Recipe
from labkit.schedule import Budget, Cost, Lane, Op
from labkit.workloads.workload import Workload

GFLOP = 1_000_000_000


def machine(kind: Any = "cuda", **changed: float | None) -> Machine:
    """A machine whose GPU computes a GFLOP in a millisecond and moves a megabyte in one."""
    figures: dict[str, float | None] = {
        "gpu_flop_per_s": 1e12, "gpu_fp32_flop_per_s": 1e12, "gpu_flop_share": 1, "hbm_bytes_per_s": 1e9, "hbm_share": 1,
        "gpu_min_kernel_ns": 0, "gpu_memory_bytes": 1000, "cores": 4, "host_flop_per_s": 1e12,
    }  # fmt: skip
    known = {name: value for name, value in (figures | changed).items() if value is not None}
    return Machine("test", "test machine", kind, {name: Figure(value, "test") for name, value in known.items()})


class WorkKnobs(Knobs):
    """How large each op is."""

    gflop: int = knob(1, "of each op", ge=0, le=1000)
    megabytes: int = knob(0, "that each op moves", ge=0, le=1000)
    resident: int = knob(0, "bytes that each op needs at once", ge=0, le=10**6)
    waiting: int = knob(0, "requests that the kernel says wait", ge=0, le=10**6)
    allocation: str | None = knob(None, "a policy", live=False)


class Work(Workload):
    """Ops of compute."""

    def work(self, step: Any) -> Op:
        knobs = step.knobs
        cost = Cost(flop=knobs.gflop * GFLOP, bytes=knobs.megabytes * 1_000_000, resident=knobs.resident)
        return self.op("work", Lane("compute"), lambda: None, cost, step, items=1)


def one_by_one(device: Any, workload: Work, steps: Any) -> None:
    """One op after another, each in its step."""
    for step in steps:
        device.recorder.gauges["waiting"] = step.knobs.waiting
        done = device.submit(workload.work(step))
        device.wait([done])
        assert done.value is None


def job(allocation: str | None, of: Machine | None = None, steps: int = 4, **knobs: Any) -> Job:
    """Some steps of work on a simulated machine, under a policy."""
    recipe = Recipe("work", one_by_one, lambda knobs, where: Work(), lambda knobs: {})
    return Job(recipe, WorkKnobs.parse({"allocation": allocation, **knobs}), "simulated:test", Budget(steps, warmup=0), machine=of or machine())


def written(folder: Path, **tiers: Any) -> str:
    """A policy file with these tiers."""
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(tiers))
    return str(path)
