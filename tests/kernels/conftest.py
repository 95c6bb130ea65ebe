"""A training workload of known durations, a device that is watched at every submit, and the virtual machine they run on."""

from collections.abc import Callable, Iterable, Sequence
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.device.cpu import CpuDevice
from labkit.device.machine import Figure, Machine
from labkit.device.simulated import SimulatedDevice
from labkit.experiments.pipeline import PipelineKnobs
from labkit.kernels.pipeline import pipeline
from labkit.schedule import Cost, Handle, Lane, Op, Step
from labkit.trace import Recorder, Trace

US = 1000
LINK = {name: Figure(1e9, "test") for name in ("link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_pageable_bytes_per_s")}


class FakeTraining:
    """Each stage takes its given time, by decree on the virtual clock and by sleeping on threads.

    stages  stage → ns, or a function of the step that gives them; a stage "prepare" is a chain of that many equal ops
    fails   (stage, step index) of an op that raises
    """

    def __init__(self, fails: tuple[str, int] | None = None, **stages: int | Callable[[int], int]):
        self.stages = {"load": 1, "copy": 1, "forward": 1, "backward": 1, "update": 1, "log": 1, **stages}
        self.preparations: Sequence[str] = ()
        self.fails = fails
        self.slot_of_step: dict[int, int] = {}
        self.logged_steps: list[int] = []
        self.values: list[Any] = []

    def load(self, step: Step, slot: int) -> Op:
        self.slot_of_step[step.index] = slot
        return self._op("load", "host" if step.knobs.loader == "inline" else "workers", step)

    def copy(self, step: Step, slot: int) -> Op:
        assert self.slot_of_step[step.index] == slot
        lane = "h2d" if step.knobs.copy_stream == "own" else "compute"
        return self._op("copy", lane, step, blocking=not step.knobs.non_blocking)

    def prepare(self, step: Step) -> list[Op]:
        return [self._op(name, "compute", step) for name in self.preparations]

    def forward(self, step: Step) -> Op:
        return self._op("forward", "compute", step)

    def backward(self, step: Step) -> Op:
        return self._op("backward", "compute", step)

    def update(self, step: Step) -> Op:
        return self._op("update", "compute", step, items=step.knobs.batch_size)

    def log(self, step: Step) -> Op:
        return self._op("log", "d2h", step, blocking=step.knobs.log_sync)

    def logged(self, step: Step, log: Handle) -> None:
        self.logged_steps.append(step.index)
        self.values.append(log.value)

    def _op(self, stage: str, role: str, step: Step, items: int = 0, blocking: bool = False) -> Op:
        known = self.stages[stage]
        duration_ns = known(step.index) if callable(known) else known
        error = ValueError(f"{stage} of step {step.index}") if self.fails == (stage, step.index) else None

        def run(*values: Any) -> None:
            sleep(duration_ns / 1e9)
            if error is not None:
                raise error

        return Op(stage, Lane(role), run, Cost(fixed_ns=duration_ns), step.index, items, blocking, error)


class Watched:
    """A device that calls `look` after every submit."""

    def __init__(self, device: Any, look: Callable[[Op], None]):
        self.device, self.look = device, look
        self.handles: list[Handle] = []
        self.submits = 0

    def now(self) -> int:
        return self.device.now()

    def submit(self, op: Op, *args: Any, after: Iterable[Handle] = ()) -> Handle:
        handle = self.device.submit(op, *args, after=after)
        self.submits += 1
        self.handles.append(handle)
        self.look(op)
        return handle

    def wait(self, handles: Sequence[Handle], until: int | None = None, how: Any = "block") -> list[Handle]:
        return self.device.wait(handles, until, how)

    def in_flight(self, name: str) -> int:
        """How many ops of this name have been submitted and have not ended by now."""
        now, simulated = self.device.now(), self.device.kind == "simulated"
        self.handles = [handle for handle in self.handles if (handle.end_ns > now if simulated else not handle.done)]
        return sum(handle.name == name for handle in self.handles)


def open_simulated(widths: dict[str, int] | None = None, cap: int = 1_000_000) -> SimulatedDevice:
    """Threads as lanes, as many cores as they need, and no overheads but the 1 ns that every verb costs."""
    return SimulatedDevice(Machine("test", "Test", "cpu", LINK), widths=widths, recorder=Recorder(cap))


def open_cpu(widths: dict[str, int] | None = None, cap: int = 1_000_000) -> CpuDevice:
    return CpuDevice(widths=widths, recorder=Recorder(cap))


def steps_of(prefetch: Iterable[int], **knobs: Any) -> list[Step]:
    """One step for each depth."""
    return [Step(index, PipelineKnobs.parse({**knobs, "prefetch": depth})) for index, depth in enumerate(prefetch)]


def run(workload: FakeTraining, steps: Iterable[Step], widths: dict[str, int] | None = None) -> Trace:
    """The trace of a pipeline on the virtual clock."""
    device = open_simulated(widths)
    pipeline(device, workload, steps)
    assert device.close() == []
    return device.recorder.finish(device.now())


@pytest.fixture(scope="session")
def lab() -> SimpleNamespace:
    """What is above, for the tests."""
    return SimpleNamespace(
        Training=FakeTraining, Watched=Watched, open_simulated=open_simulated, open_cpu=open_cpu, steps_of=steps_of, run=run
    )
