"""What every training workload does once a batch lies on the device: forward, backward, update, and its loss to the host.

A workload derives from `Training`, gives it a model and an optimizer, and adds what is its own: how a batch is loaded,
copied and prepared, what its loss is, and what a stage costs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import torch

from labkit.schedule import Cost, Handle, Lane, Op, Step
from labkit.workloads.workload import Workload

WORKERS, H2D, COMPUTE, D2H = Lane("workers"), Lane("h2d"), Lane("compute"), Lane("d2h")


class Training(Workload, ABC):
    """The second half of a `TrainingWorkload`: forward, backward, update and log, with the losses as its results.

    optimizer  made by the derived class; a simulated device needs none
    frees_gradients  an update drops the gradients, as torch does where nobody says otherwise; else it clears them in place
    """

    optimizer: torch.optim.Optimizer
    frees_gradients = False

    def begin(self) -> None:
        """A new run starts: no losses are read. Weights are kept."""
        super().begin()
        self._first_loss: float | None = None
        self._last_loss: float | None = None
        self._losses_read = 0

    # ---- what a derived class says ------------------------------------------------------------------------

    @abstractmethod
    def loss_of(self, prepared: Any) -> torch.Tensor:
        """The loss of a batch as the last stage before forward left it: a tensor of one value."""

    @abstractmethod
    def stage_cost(self, stage: str, size: int) -> Cost:
        """What "forward", "backward" or "update" asks of the hardware for a batch of `size` items."""

    # ---- stages -------------------------------------------------------------------------------------------

    def forward(self, step: Step) -> Op:
        """The loss of a prepared batch."""
        return self.op("forward", COMPUTE, self.loss_of, self.stage_cost("forward", step.knobs.batch_size), step)

    def backward(self, step: Step) -> Op:
        """Gradients from the loss."""

        def run(loss: torch.Tensor) -> None:
            loss.backward()

        return self.op("backward", COMPUTE, run, self.stage_cost("backward", step.knobs.batch_size), step)

    def update(self, step: Step) -> Op:
        """One optimizer step, and gradients begin anew."""

        def run(_: None) -> None:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=self.frees_gradients)

        size = step.knobs.batch_size
        return self.op("update", COMPUTE, run, self.stage_cost("update", size), step, items=size)

    def log(self, step: Step) -> Op:
        """Bring the loss to the host."""

        def run(loss: torch.Tensor) -> torch.Tensor:
            return loss.detach().to("cpu", non_blocking=True)

        return self.op("log", D2H, run, Cost(bytes=4), step, blocking=step.knobs.log_sync)

    def logged(self, step: Step, log: Handle) -> None:
        """Read the loss, which a simulated device has none of."""
        loss = log.value
        if loss is not None:
            self._last_loss = float(loss)
            self._first_loss = self._last_loss if self._first_loss is None else self._first_loss
            self._losses_read += 1

    def results(self) -> dict[str, Any]:
        """The first and the last loss that were read, and how many were."""
        return {"first_loss": self._first_loss, "last_loss": self._last_loss, "losses_read": self._losses_read}


def epochs(total: int, seed: int) -> Iterator[int]:
    """The indices 0 to `total` - 1 in a new seeded order every epoch, without end."""
    for epoch in count():
        yield from np.random.default_rng((seed, epoch)).permutation(total).tolist()
