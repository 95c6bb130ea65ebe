"""What kernels ask of a workload. A workload is built for one device kind and one set of cold knobs; live knobs
arrive with each step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from labkit.schedule import Cost, Handle, Lane, Op, Request, Step
from labkit.workloads.ledger import CostLedger


class Workload:
    """What every workload says of itself; derive from it and add the ops that your kernel asks for."""

    def __init__(self) -> None:
        self.ledger = CostLedger()

    def begin(self) -> None:
        """A new run starts: results begin anew, what was built is kept."""
        self.ledger = CostLedger()

    def op(
        self, name: str, lane: Lane, run: Callable[..., Any], cost: Cost, step: Step, items: int = 0, blocking: bool = False
    ) -> Op:
        """An op of `step` whose cost is counted."""
        self.ledger.add(name, cost)
        return Op(name, lane, run, cost, step.index, items, blocking)

    @property
    def costs(self) -> Mapping[str, Cost]:
        """The mean cost of every op name handed out in this run, for predictions from measured times."""
        return self.ledger.means()

    def notes(self) -> list[str]:
        """Words for people about this run: images skipped, ..."""
        return []

    def results(self) -> dict[str, Any]:
        """Plain results of the run: the last loss, ..."""
        return {}

    def close(self) -> None:
        """Let go of processes and files; the workload is not used again."""


class TrainingWorkload(Protocol):
    """What a training kernel asks of its workload: the stages of a step, each an `Op`. The host program calls them in the order given here, once a step."""

    def load(self, step: Step, slot: int) -> Op:
        """Make a batch on the host, in the host buffer of `slot`."""
        ...

    def copy(self, step: Step, slot: int) -> Op:
        """Bring a loaded batch to the device, into the device buffer of `slot`."""
        ...

    def prepare(self, step: Step) -> Sequence[Op]:
        """The preparation that this step's knobs place on the device: none to a few ops, each fed by the one before."""
        ...

    def forward(self, step: Step) -> Op:
        """The loss of a prepared batch."""
        ...

    def backward(self, step: Step) -> Op:
        """Gradients from the loss; the last reader of the batch."""
        ...

    def update(self, step: Step) -> Op:
        """One optimizer step; completes the step's items."""
        ...

    def log(self, step: Step) -> Op:
        """Bring the loss to the host."""
        ...

    def logged(self, step: Step, log: Handle) -> None:
        """The host has waited for this step's log op."""
        ...


class ServingWorkload(Protocol):
    """What a serving kernel asks of its workload."""

    def length(self, request: Request) -> int:
        """How much this request asks for, in the workload's unit (tokens, pixels); the requests of a batch are padded to its longest."""
        ...

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> Sequence[Op]:
        """The ops that answer these requests (each with its length), each fed by the one before, in the buffers of `slot`; the last
        completes them."""
        ...

    def answered(self, step: Step, requests: Sequence[Request], answers: Handle) -> None:
        """The host has the answers of these requests."""
        ...
