"""Batches of any form: an input and a target, each a tensor or tensors in nested tuples, lists and dicts.

What is no tensor in them (file names, …) travels along as it is. The memory behind a slot's tensors is allocated once and
grown when needed, as everywhere.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map_only, tree_structure

from labkit.workloads.buffers import Buffers


class Batch(NamedTuple):
    """What the model is given, and what the loss compares its output with."""

    inputs: Any
    target: Any


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """The tensors of a tree, in order."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def bytes_of(tree: Any) -> int:
    """Bytes of the tensors of a tree."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(tree))


def form_words(tree: Any) -> str:
    """A tree for people: `float32 [16, 3, 8, 8]`, or `{ids: int64 [16, 32], mask: bool [16, 32]}`."""
    if isinstance(tree, torch.Tensor):
        return f"{str(tree.dtype).removeprefix('torch.')} {list(tree.shape)}"
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{name}: {form_words(part)}" for name, part in tree.items()) + "}"
    if isinstance(tree, tuple | list):
        parts = [form_words(part) for part in tree]
        return f"({', '.join(parts)})" if len(set(parts)) > 1 or len(parts) < 3 else f"({parts[0]}, … {len(parts)} of them)"
    return type(tree).__name__


class BatchBuffers:
    """The host and device memory behind a kernel's slots, for batches of any form. `device` is where they go."""

    def __init__(self, device: torch.device):
        self._device = device
        self._places: defaultdict[int, Buffers] = defaultdict(lambda: Buffers(device))

    def pinned(self, batch: Batch, slot: int) -> Batch:
        """The batch in the pinned buffers of `slot`; where there is no GPU to pin for, the batch as it is."""
        if self._device.type != "cuda":
            return batch
        return self._copied(batch, True, lambda buffers, like: buffers.host(slot, tuple(like.shape), like.dtype, True))

    def on_device(self, batch: Batch, slot: int, non_blocking: bool) -> Batch:
        """The batch in the device buffers of `slot`."""
        return self._copied(
            batch, non_blocking, lambda buffers, like: buffers.on_device(slot, tuple(like.shape), like.dtype)
        )

    def held_bytes(self) -> int:
        """Bytes allocated on both sides."""
        return sum(buffers.held_bytes() for buffers in self._places.values())

    def _copied(
        self, batch: Batch, non_blocking: bool, place_for: Callable[[Buffers, torch.Tensor], torch.Tensor]
    ) -> Batch:
        places = iter(range(len(tensors_of(batch))))

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            return place_for(self._places[next(places)], tensor).copy_(tensor, non_blocking=non_blocking)

        return tree_map_only(torch.Tensor, copied, batch)


class BatchForm:
    """The form of a batch of any size, told from two batches: one of some items, and one of the same items twice.

    A dimension that grows from one to the other grows with the batch; the others stay (items of several lengths are
    padded to the longest, which is the same in both). Where the number of tensors grows, a batch of the size is made.
    """

    def __init__(self, items: Sequence[Any], collated: Callable[[Sequence[Any]], Batch]):
        self._items, self._collated = items, collated
        self._once, twice = collated(items), collated([*items, *items])
        self._grown = [tuple(tensor.shape) for tensor in tensors_of(twice)]
        self._same_tree = tree_structure(self._once) == tree_structure(twice)
        self._bytes: dict[int, int] = {}

    def on_meta(self, size: int) -> Batch:
        """A batch of `size` items that has shapes and no values."""
        if not self._same_tree:
            made = self._collated([self._items[place % len(self._items)] for place in range(size)])
            return tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), made)
        grown = iter(self._grown)
        more = size / len(self._items) - 1

        def of_size(tensor: torch.Tensor) -> torch.Tensor:
            pairs = zip(tensor.shape, next(grown), strict=True)
            shape = [once + round(more * (twice - once)) for once, twice in pairs]
            return torch.empty(shape, dtype=tensor.dtype, device="meta")

        return tree_map_only(torch.Tensor, of_size, self._once)

    def bytes(self, size: int) -> int:
        """Bytes of the tensors of a batch of `size` items."""
        known = self._bytes.get(size)
        if known is None:
            known = self._bytes[size] = bytes_of(self.on_meta(size))
        return known
