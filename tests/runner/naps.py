"""A workload of naps for tests of the runner: real sleeps on the cpu device, the same times on the virtual clock."""

import time
from collections.abc import Callable
from typing import Any

from labkit.device.machine import Figure, Machine
from labkit.knobs import Knobs, knob
from labkit.runner.job import Job, Recipe
from labkit.schedule import Budget, Cost, Lane, Op

MACHINE = Machine("test", "test machine", "cpu", {"cores": Figure(2, "test")})


class NapKnobs(Knobs):
    """Knobs of a workload that naps."""

    nap_ms: int = knob(5, "length of one nap", ge=0, le=10_000)
    fails_at: int = knob(-1, "step whose op raises", ge=-1, le=10_000)
    seed: int = knob(0, "cold: another value needs another worker", ge=0, le=9, live=False)


class Naps:
    """A workload of sleeping ops."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self.done = 0

    def begin(self) -> None:
        self.done = 0

    def nap(self, step: Any) -> Op:
        knobs = step.knobs
        fails = step.index == knobs.fails_at
        trouble = ValueError(f"no nap at step {step.index}")

        def run() -> None:
            if fails:
                raise trouble
            time.sleep(knobs.nap_ms / 1000)
            self.done += 1

        cost = Cost(fixed_ns=knobs.nap_ms * 1_000_000)
        self.costs["nap"] = cost
        value = trouble if fails else None
        return Op("nap", Lane("compute"), run, cost, step.index, items=1, simulated_value=value)

    def notes(self) -> list[str]:
        return []

    def results(self) -> dict[str, Any]:
        return {"done": self.done}

    def close(self) -> None:
        pass


def naps(device: Any, workload: Naps, steps: Any) -> None:
    """One nap after another."""
    for step in steps:
        device.wait([device.submit(workload.nap(step))])


def nap_job(
    steps: int | None = 10, *, seconds: float | None = None, kernel: Callable = naps, warmup: int = 2, simulated: bool = True,
    **knobs: Any,
) -> Job:  # fmt: skip
    """A job of naps, on the virtual clock unless `simulated` is false."""
    recipe = Recipe("naps", kernel, lambda knobs, where: Naps(), lambda knobs: {})
    device, machine = ("simulated:test", MACHINE) if simulated else ("cpu", None)
    return Job(recipe, NapKnobs.parse(knobs), device, Budget(steps, seconds, warmup), machine=machine)
