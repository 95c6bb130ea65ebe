"""A training workload that is all schedule: fixed costs, nothing to compute. For timing the simulator itself."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from labkit.kernels.pipeline import pipeline
from labkit.schedule import HOST, Cost, Handle, Lane, Op, Step

WORKERS, H2D, COMPUTE, D2H = Lane("workers"), Lane("h2d"), Lane("compute"), Lane("d2h")
_US = 1_000


class LightKnobs(NamedTuple):
    """What the `pipeline` kernel reads of its knobs."""

    prefetch: int = 4
    log_every: int = 1
    log_sync: bool = False
    inline: bool = False


class Light:
    """Seven ops a step, with the proportions of a GPU that waits for its loader now and then."""

    def begin(self) -> None: ...

    def load(self, step: Step, slot: int) -> Op:
        return _op("decode", HOST if step.knobs.inline else WORKERS, (9_000 + 800 * (step.index % 5)) * _US, step)

    def copy(self, step: Step, slot: int) -> Op:
        return _op("copy", H2D, 350 * _US, step)

    def prepare(self, step: Step) -> Iterable[Op]:
        return (_op("normalise", COMPUTE, 120 * _US, step),)

    def forward(self, step: Step) -> Op:
        return _op("forward", COMPUTE, 1_400 * _US, step)

    def backward(self, step: Step) -> Op:
        return _op("backward", COMPUTE, 2_900 * _US, step)

    def update(self, step: Step) -> Op:
        return _op("update", COMPUTE, 240 * _US, step, items=16)

    def log(self, step: Step) -> Op:
        return _op("log", D2H, 8 * _US, step)

    def logged(self, step: Step, log: Handle) -> None: ...

    @property
    def costs(self) -> Mapping[str, Cost]:
        return {}

    def notes(self) -> list[str]:
        return []

    def results(self) -> dict[str, Any]:
        return {}


def light_run(device: Any, steps: int, knobs: LightKnobs | None = None) -> None:
    """The `pipeline` kernel over the light workload."""
    knobs = knobs or LightKnobs()
    pipeline(device, Light(), (Step(index, knobs) for index in range(steps)))


def _op(name: str, lane: Lane, duration_ns: int, step: Step, items: int = 0) -> Op:
    return Op(name, lane, _nothing, Cost(fixed_ns=duration_ns), step.index, items)


def _nothing(*_: Any) -> None: ...
