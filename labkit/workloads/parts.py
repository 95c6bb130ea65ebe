"""The parts that a user's own training is made of, and how they travel to the worker process: as bytes, made once.

Being bytes, they are the same for every run, so that a worker knows what it has prepared already; and what the worker
trains is its own copy, never the caller's module. Classes and functions of a notebook cell travel by value.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import torch

from labkit.errors import DataError, ExperimentError
from labkit.workloads.batches import Batch, form_words, tensors_of


@dataclass(frozen=True)
class Loading:
    """How batches are made: items of a map-style `dataset`, put together by `collate` (None: as torch's DataLoader does)."""

    dataset: Any
    collate: Callable[[list[Any]], Any] | None

    def batch(self, indices: Iterable[int]) -> Batch:
        """The batch of these items. Raises DataError where an item cannot be had, or a batch is no (input, target) pair."""
        return self.collated([self.item(index) for index in indices])

    def item(self, index: int) -> Any:
        """One item. Raises DataError."""
        try:
            return self.dataset[index]
        except Exception as error:  # the data set is the user's code
            raise DataError(f"dataset[{index}] failed: {said(error)}") from error

    def collated(self, items: Sequence[Any]) -> Batch:
        """Items put together. Raises DataError."""
        if self.collate is None and not _is_pair(items[0]):
            raise DataError(
                f"dataset[i] is {_shown(items[0])}; a pair (input, target) is needed, or a collate=… that makes one of a list of items"
            )
        try:
            made = _default_collate(items) if self.collate is None else self.collate(list(items))
        except Exception as error:  # so is what puts items together
            raise DataError(f"{len(items)} items of the data set cannot be put together: {said(error)}") from error
        if not _is_pair(made):
            raise DataError(f"collate gave {_shown(made)}; a pair (inputs, targets) is needed")
        batch = Batch(*made)
        if not tensors_of(batch.inputs):
            raise DataError(f"the input of a batch holds no tensor, it is {_shown(batch.inputs)}: make tensors with collate=…")
        if any(tensor.layout is not torch.strided for tensor in tensors_of(batch)):
            raise DataError(f"a batch holds a sparse tensor, which has no buffer: {form_words(batch)}; give dense ones")
        return batch


@dataclass(frozen=True)
class Learning:
    """What is trained, and how: `model(input)` gives the output, `loss(output, target)` one value to make small."""

    model: Any
    loss: Callable[[Any, Any], Any]
    optimizer: Callable[[Iterable[torch.nn.Parameter]], Any]

    def made(self) -> "Learning":
        """The same with its model made, where a function makes it. Raises ExperimentError where that fails."""
        if isinstance(self.model, torch.nn.Module):
            return self
        try:
            model = self.model()
        except Exception as error:  # the function is the user's code
            raise ExperimentError(f"the function that makes the model failed: {said(error)}") from error
        if not isinstance(model, torch.nn.Module):
            raise ExperimentError(f"the function that makes the model gave {_shown(model)}; a torch.nn.Module is needed")
        return replace(self, model=model)

    def loss_of(self, batch: Batch) -> torch.Tensor:
        """The loss of a batch. Raises ExperimentError with the forms of what did not fit."""
        try:
            output = self.model(batch.inputs)
        except Exception as error:  # the model is the user's code
            raise ExperimentError(f"the model failed on its input, {form_words(batch.inputs)}: {said(error)}") from error
        try:
            loss = self.loss(output, batch.target)
        except Exception as error:  # so is the loss
            forms = f"output {form_words(output)} and target {form_words(batch.target)}"
            raise ExperimentError(f"the loss failed on {forms}: {said(error)}") from error
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise ExperimentError(f"the loss is {form_words(loss)}; a tensor of one value is needed, such as loss.mean()")
        if not loss.requires_grad:
            raise ExperimentError("the loss depends on no parameter of the model: there is nothing to train")
        return loss

    def optimizer_of(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """The optimizer of a model's parameters. Raises ExperimentError where it cannot be made."""
        try:
            made = self.optimizer(model.parameters())
        except Exception as error:  # the user's code once more
            raise ExperimentError(f"optimizer(model.parameters()) failed: {said(error)}") from error
        if not isinstance(made, torch.optim.Optimizer):
            raise ExperimentError(f"optimizer(model.parameters()) gave {_shown(made)}; a torch.optim.Optimizer is needed")
        return made


@dataclass(frozen=True)
class Packed:
    """Both as bytes. They are apart because processes that load need no model."""

    loading: bytes = field(repr=False)
    learning: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """The same data, model, loss and optimizer give the same."""
        return hashlib.sha256(self.loading + self.learning).hexdigest()[:16]

    @classmethod
    def of(cls, loading: Loading, learning: Learning) -> "Packed":
        """Raises DataError, ExperimentError for what cannot be copied to another process."""
        try:
            loading_bytes = cloudpickle.dumps(loading)
        except Exception as error:  # pickling runs code of the parts' own
            raise DataError(f"the data set cannot be copied to the worker process: {said(error)}; {_OPEN_LATER}") from error
        try:
            return cls(loading_bytes, cloudpickle.dumps(learning))
        except Exception as error:
            raise ExperimentError(f"model, loss and optimizer cannot be copied to the worker process: {said(error)}") from error


_OPEN_LATER = "open files, connections and locks in __getitem__, when the first item is asked for"


def said(error: BaseException) -> str:
    """`ValueError: what it says`, also of an exception that cannot say it."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ is broken
        return type(error).__name__


def _default_collate(items: Sequence[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate(list(items))


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} parts"
    return form_words(value) if isinstance(value, torch.Tensor) else f"of type {type(value).__name__}"
