"""What to profile, by its name: the model of an experiment, or what `module:factory` makes."""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from labkit.errors import ExperimentError
from labkit.experiments import experiment

DTYPES = ("float32", "bfloat16", "float16")


def target(name: str, knobs: Mapping[str, Any], batch: int | None, dtype: str) -> tuple[Any, tuple[Any, ...]]:
    """The model and its inputs, of random values. Raises ExperimentError, KnobError: what is wrong, and what is allowed."""
    import torch

    if dtype not in DTYPES:
        raise ExperimentError(f"dtype={dtype!r} is not allowed; allowed: {', '.join(DTYPES)}")
    if batch is not None and not 1 <= batch <= 65_536:
        raise ExperimentError(f"batch={batch} is out of range: 1 to 65536 are allowed")
    model, inputs = _of_factory(name) if ":" in name else _of_experiment(name, knobs, batch)
    kind = getattr(torch, dtype)
    if isinstance(model, torch.nn.Module):
        model = model.to(kind)
    return model, tuple(each.to(kind) if isinstance(each, torch.Tensor) and each.is_floating_point() else each for each in inputs)


def forms_of(inputs: tuple[Any, ...]) -> str:
    """`float32 [2, 5]`, of each input."""
    from labkit.workloads.batches import form_words

    return form_words(inputs)


def said(error: BaseException) -> str:
    """`ValueError: what it says`."""
    return f"{type(error).__name__}: {error}"


def _of_experiment(name: str, knobs: Mapping[str, Any], batch: int | None) -> tuple[Any, tuple[Any, ...]]:
    """The image classifier of `pipeline`, on random pictures of its size. Raises ExperimentError for one without a model of labkit's."""
    import torch

    from labkit.workloads.models import ResidualCNN

    values = experiment(name).knobs.parse(dict(knobs))
    sizes = values.model_dump()
    if not {"model", "image_size", "batch_size"} <= sizes.keys():
        raise ExperimentError(f"experiment '{name}' has no model of labkit's to profile; give module:factory, which returns (model, inputs)")
    size = sizes["image_size"]
    return ResidualCNN(sizes["model"], 8), (torch.randn(batch or sizes["batch_size"], 3, size, size),)


def _of_factory(name: str) -> tuple[Any, tuple[Any, ...]]:
    module_name, _, factory_name = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(importlib.import_module(module_name), factory_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ExperimentError(f"{name!r}: {error}; give module:factory, where factory() returns (model, inputs)") from error
    except Exception as error:  # the module is the user's code
        raise ExperimentError(f"{module_name} cannot be imported: {said(error)}") from error
    if not callable(factory):
        raise ExperimentError(f"{name!r} is not callable; give module:factory, where factory() returns (model, inputs)")
    try:
        made = factory()
    except (Exception, SystemExit) as error:  # so is the factory
        raise ExperimentError(f"{name}() failed: {said(error)}; it takes nothing and returns (model, inputs)") from error
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]):
        raise ExperimentError(f"{name}() returned {type(made).__name__}; it must return (model, inputs), inputs being a tensor or a tuple of them")
    model, inputs = made
    return model, tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
