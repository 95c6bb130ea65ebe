"""What a user gives for a workload of their own, looked at before anything is copied or started.

Each check raises with what is wrong, what is needed and, for the common mistakes, what was probably meant.
"""

import inspect
import re
from typing import Any

import torch

from labkit.errors import DataError, ExperimentError
from labkit.experiments import experiments
from labkit.workloads.parts import Loading, said

LONGEST_NAME = 64


def check_name(name: Any) -> None:
    """Raises ExperimentError for what cannot name records: it becomes part of folder names."""
    if not isinstance(name, str) or not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}", name):
        raise ExperimentError(
            f"name={name!r} is not allowed: letters, digits, - and _, a letter or digit first, at most {LONGEST_NAME}"
        )
    if name in experiments():
        raise ExperimentError(f"name={name!r} is that of an experiment of labkit's; take another one")


def check_dataset(dataset: Any) -> None:
    """Raises DataError where `dataset` is not map-style, or empty."""
    kind = dataset.__name__ if isinstance(dataset, type) else type(dataset).__name__
    needed = "a map-style data set is needed: dataset[i] gives an item, len(dataset) how many there are"
    if isinstance(dataset, type):
        raise DataError(f"dataset is the class {kind}: give an instance, {kind}(…)")
    if isinstance(dataset, torch.utils.data.DataLoader):
        raise DataError("dataset is a DataLoader: give its data set, loader.dataset (labkit loads and batches by itself)")
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise DataError(f"dataset is an iterable one ({kind}), whose items have no index; {needed}")
    if not hasattr(dataset, "__getitem__"):
        raise DataError(f"dataset ({kind}) has no __getitem__; {needed}")
    try:
        total = len(dataset)
    except Exception as error:  # __len__ is the user's code, or missing
        raise DataError(f"len(dataset) failed: {said(error)}; {needed}") from error
    if total < 1:
        raise DataError(f"dataset ({kind}) is empty: len(dataset) is {total}; one item or more is needed")


def check_items(loading: Loading) -> None:
    """Raises DataError where the first item cannot be had, or two of them not be put together to a pair of tensors."""
    first = loading.item(0)
    loading.collated([first, first])


def check_model(model: Any) -> None:
    """Raises ExperimentError for what is neither a module nor a function without parameters."""
    if isinstance(model, torch.nn.Module):
        return
    needed = "a torch.nn.Module, or a function without parameters that makes one"
    check_callable("model", model, needed)
    try:
        inspect.signature(model).bind()
    except TypeError as error:
        raise ExperimentError(f"model cannot be called without arguments ({error}); {needed} is needed: lambda: Net(…)") from error
    except ValueError:
        pass  # a built-in that has no signature to look at


def check_loss(loss: Any) -> None:
    """Raises ExperimentError for what is no function of output and target."""
    if isinstance(loss, type):
        raise ExperimentError(f"loss is the class {loss.__name__}: give an instance, {loss.__name__}()")
    check_callable("loss", loss, "a function (output, target) → a tensor of one value")


def check_optimizer(optimizer: Any) -> None:
    """Raises ExperimentError for what does not make a torch optimizer of parameters."""
    needed = "a function from parameters to an optimizer: lambda parameters: torch.optim.SGD(parameters, lr=0.01)"
    if isinstance(optimizer, torch.optim.Optimizer):
        raise ExperimentError(
            f"optimizer is a {type(optimizer).__name__} that holds the parameters of a module already, and the model is copied; give {needed}"
        )
    check_callable("optimizer", optimizer, needed)
    try:
        made = optimizer([torch.nn.Parameter(torch.zeros(1))])
    except Exception:  # it may need the parameters of its own model: the worker tries it with them
        return
    if not isinstance(made, torch.optim.Optimizer):
        raise ExperimentError(f"optimizer(parameters) gave {type(made).__name__}, not a torch optimizer; give {needed}")


def check_callable(what: str, value: Any, needed: str, optional: bool = False) -> None:
    """Raises ExperimentError for what cannot be called."""
    if not (callable(value) or (optional and value is None)):
        raise ExperimentError(f"{what} is of type {type(value).__name__}; {needed} is needed")
