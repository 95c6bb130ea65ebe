"""FLOP of operators: torch's own formulas for products, convolutions and attention, and a few words of arithmetic for the others.

An addition, a multiplication, a comparison and a transcendental function of one element count one each. What moves data counts none. An
operator that is in none of the lists, a custom one above all, is unknown: None, never zero.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from labkit.profile.given import Given, numel
from labkit.profile.training import FORMULAS

UNKNOWN = "no formula is known for it"

_MOVES = {
    "copy_", "_to_copy", "clone", "cat", "stack", "embedding", "index", "index_select", "gather", "contiguous", "fill_", "zero_", "slice_scatter",
    "constant_pad_nd", "repeat", "roll", "flip", "full", "zeros", "ones", "arange", "zeros_like", "ones_like", "full_like", "scalar_tensor",
    "lift_fresh_copy", "new_zeros", "new_ones", "new_full", "masked_fill", "where", "tril", "triu", "_local_scalar_dense", "one_hot",
    "randn", "rand", "randint", "bernoulli_", "normal_", "uniform_", "scatter", "_unsafe_view", "unfold_backward", "masked_fill_", "select_backward",
    "slice_backward", "unsafe_split", "upsample_nearest2d", "reflection_pad1d", "reflection_pad2d", "replication_pad2d", "_foreach_copy_", "_foreach_zero_",
}  # fmt: skip
_REDUCES = {"sum", "mean", "amax", "amin", "max", "min", "prod", "any", "all", "argmax", "argmin", "count_nonzero", "linalg_vector_norm"}
_GATHERS = {
    "embedding", "index", "index_select", "gather", "scatter", "scatter_add", "index_put", "index_put_", "embedding_dense_backward", "take",
    "nll_loss_forward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss2d_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
    "adaptive_max_pool2d_backward",
}  # fmt: skip
_TAKES_ROWS = {"embedding", "index_select", "gather", "index"}
_TAKES_TARGETS = {"nll_loss_forward", "nll_loss2d_forward"}
_SHAPE_ONLY = {
    "nll_loss_backward", "nll_loss2d_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
    "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "adaptive_max_pool2d_backward",
}  # fmt: skip
"""Backward operators that take the forward's input for its shape, and read nothing of it."""


def flop_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int | None:
    """FLOP of one call; None where nobody knows. `func` is an overload such as aten.mm.default."""
    packet, name = func.overloadpacket, func.overloadpacket.__name__
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=result))
    if name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        return _attention_of(name, args)
    if func.namespace not in ("aten", "prims"):
        return None
    if name in _MOVES:
        return 0
    if name in FORMULAS:
        return FORMULAS[name](Given(func, args, kwargs), result)
    if torch.Tag.pointwise in func.tags or _is_pointwise_of_many(name):
        return numel(result if numel(result) else args[0])
    return numel(args[0]) if name in _REDUCES else None


def _is_pointwise_of_many(name: str) -> bool:
    """Whether it does to each tensor of a list what a pointwise operator does to one: `_foreach_add_` and `add`."""
    one = getattr(torch.ops.aten, name.removeprefix("_foreach_").removesuffix("_"), None) if name.startswith("_foreach_") else None
    return one is not None and any(torch.Tag.pointwise in getattr(one, overload).tags for overload in one.overloads())


def access_of(func: Any, tensors: Sequence[torch.Tensor]) -> str:
    """How it goes through memory: "gather" by indices, "strided" where an input is not dense, "reduction", else "sequential"."""
    name = func.overloadpacket.__name__
    if name in _GATHERS:
        return "gather"
    if any(not _is_dense(tensor) for tensor in tensors):
        return "strided"
    return "reduction" if name in _REDUCES else "sequential"


def read_bytes_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[torch.Tensor], result: Any) -> int:
    """Bytes that a call reads: each input once, of a gather only the rows that it takes and the indices."""
    name = func.overloadpacket.__name__
    if name in _TAKES_ROWS:
        indices = sum(bytes_of(tensor) for tensor in tensors[1:])
        return indices + bytes_of(result)
    whole = sum(bytes_of(tensor) for tensor in tensors)
    if name in _SHAPE_ONLY:
        return whole - bytes_of(Given(func, args, kwargs)["self"])
    if name in _TAKES_TARGETS:
        given = Given(func, args, kwargs)
        return whole - bytes_of(given["self"]) + numel(given["target"]) * given["self"].element_size()
    return whole


def bytes_of(value: Any) -> int:
    """Bytes of a tensor's own elements, each once however often an expanded one repeats them."""
    if not isinstance(value, torch.Tensor):
        return sum(bytes_of(each) for each in value) if isinstance(value, tuple | list) else 0
    sizes = [size for size, stride in zip(value.shape, value.stride(), strict=True) if stride != 0] if value.layout == torch.strided else value.shape
    return prod(sizes) * value.element_size() if value.numel() else 0


def _attention_of(name: str, args: Sequence[Any]) -> int:
    """2·B·H·S·T·(D + Dv) forward, as torch's formula for the GPU kernels; 2.5 times that backward (five products for two)."""
    backward = name.endswith("backward")
    query, key, value = args[1:4] if backward else args[:3]
    return round((2.5 if backward else 1) * _attention(tuple(query.shape), tuple(key.shape), tuple(value.shape)))


def _attention(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> int:
    *batches, rows, depth = query
    return 2 * prod(batches) * rows * key[-2] * (depth + value[-1])


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie together in memory, in whatever order of dimensions."""
    if tensor.layout != torch.strided or tensor.numel() < 2:
        return True
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True
