"""Pipelined training of a user's own: data set, model, loss and optimizer from a notebook cell become an experiment.

    mine = labkit.workload(dataset, model=Net, loss=torch.nn.functional.cross_entropy, optimizer=torch.optim.Adam)
    labkit.run(mine, prefetch=4, device="cpu", seconds=2)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.experiments.experiment import Experiment
from labkit.experiments.loading import (
    COPY_STREAM,
    LOADER,
    LOG_EVERY,
    LOG_SYNC,
    NON_BLOCKING,
    PINNED,
    PREFETCH,
    PRESETS,
    WORKERS,
    CopyStream,
    Loader,
    widths,
)
from labkit.kernels.pipeline import pipeline
from labkit.knobs import Knobs, knob

if TYPE_CHECKING:
    import torch

    from labkit.workloads.parts import Packed

class UserKnobs(Knobs):
    """The knobs of pipelined training that ask nothing of the data. Live ones act on the next step; cold ones restart the worker,
    and so does `workers` where processes load."""

    prefetch: int = PREFETCH
    workers: int = WORKERS
    batch_size: int = knob(16, "items in a step", unit="items", ge=1, le=4096)
    pinned: bool = PINNED
    non_blocking: bool = NON_BLOCKING
    copy_stream: CopyStream = COPY_STREAM
    log_every: int = LOG_EVERY
    log_sync: bool = LOG_SYNC
    loader: Loader = LOADER
    seed: int = knob(0, "of the order, and of the weights that a function makes", ge=0, le=2**31, live=False)


@dataclass(frozen=True)
class Preparation:
    """Prepares the workload in the worker process, from the parts as they travelled."""

    packed: "Packed"

    def __call__(self, knobs: UserKnobs, where: str) -> Any:
        """The workload for one set of cold knobs. Raises DataError, ExperimentError where a part does not work."""
        from labkit.workloads.user import UserTraining

        return UserTraining(self.packed, knobs, where)


def workload(
    dataset: Any,
    model: "torch.nn.Module | Callable[[], torch.nn.Module]",
    loss: Callable[[Any, Any], "torch.Tensor"],
    optimizer: Callable[[Iterable["torch.nn.Parameter"]], "torch.optim.Optimizer"],
    *,
    name: str = "workload",
    collate: Callable[[list[Any]], Any] | None = None,
) -> Experiment:
    """An experiment that trains your model on your data; `labkit.run`, `compare`, `predict`, `sweep` and `panel` take it.

    dataset    map-style: dataset[i] is a pair (input, target), len(dataset) how many there are; several threads may ask at once
    model      a module, or a function without parameters that makes one; called with the input of a batch
    loss       (output, target) → a tensor of one value
    optimizer  the model's parameters → a torch optimizer: `lambda parameters: torch.optim.SGD(parameters, lr=0.01)`
    name       what its records are called: letters, digits, - and _
    collate    list of items → a pair (inputs, targets) of a batch; as torch's DataLoader puts them together where it is None

    Inputs and targets are tensors, or tensors in nested tuples, lists and dicts. Everything is copied now: later changes have no
    effect, and your own module is not trained. Raises DataError, ExperimentError for what cannot work.
    """
    from labkit.experiments import user_input
    from labkit.workloads.parts import Learning, Loading, Packed

    user_input.check_name(name)
    user_input.check_dataset(dataset)
    user_input.check_callable("collate", collate, "a function from a list of items to a pair (inputs, targets)", optional=True)
    user_input.check_model(model)
    user_input.check_loss(loss)
    user_input.check_optimizer(optimizer)
    loading = Loading(dataset, collate)
    user_input.check_items(loading)
    packed = Packed.of(loading, Learning(model, loss, optimizer))
    return Experiment(
        name=name,
        question="What does loading ahead of the training step gain for this data and this model?",
        knobs=UserKnobs,
        kernel=pipeline,
        prepare=Preparation(packed),
        widths=widths,
        presets=PRESETS,
        content=packed.digest,
    )
