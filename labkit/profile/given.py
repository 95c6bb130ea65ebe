"""The arguments of one operator call by their names, as its schema declares them: `given["output_mask"]`, whatever order they came in."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch


class Given:
    """The arguments of a call, defaults included."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]):
        self.name: str = func.overloadpacket.__name__
        self._values = {}
        for place, argument in enumerate(func._schema.arguments):
            default = argument.default_value if argument.has_default_value() else None
            self._values[argument.name] = args[place] if place < len(args) else kwargs.get(argument.name, default)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def first(self, *names: str) -> Any:
        """The value of the first of these names that the operator has: kin of one operator call the same thing differently."""
        return self._values[next(name for name in names if name in self._values)]

    def has(self, name: str) -> bool:
        """Whether there is such an argument and it is neither None nor empty."""
        value = self._values.get(name)
        return value is not None and not (isinstance(value, list | tuple) and not value)

    def wanted(self, place: int) -> bool:
        """Whether a backward operator is to make the gradient at this place of its results; all where it has no mask."""
        mask = self._values.get("output_mask")
        return mask is None or bool(mask[place])


def numel(value: Any) -> int:
    """Elements of a tensor, or of all tensors of a list."""
    if isinstance(value, torch.Tensor):
        return value.numel()
    return sum(numel(each) for each in value) if isinstance(value, tuple | list) else 0


def size_of(kernel: Any, dimensions: int) -> int:
    """Elements of a pooling window that is given by one number or one for each dimension."""
    sizes = list(kernel) if isinstance(kernel, tuple | list) else [kernel]
    return prod(sizes * dimensions if len(sizes) == 1 else sizes)
