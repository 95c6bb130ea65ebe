"""Counting: a call of a model, watched operator by operator as torch dispatches them, backward pass included.

A dispatch mode sees what really runs, after control flow and autograd, custom operators too, where tracing (torch.export, fx) refuses
what depends on values. Nothing is timed here.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from labkit.profile.formulas import access_of, bytes_of, flop_of, read_bytes_of
from labkit.profile.given import Given


@dataclass(frozen=True)
class Call:
    """One operator call.

    flop   None: unknown
    needs  places of the calls whose results it reads
    """

    name: str
    flop: int | None
    read_bytes: int
    write_bytes: int
    dtype: str
    access: str
    needs: tuple[int, ...]


class Counting(TorchDispatchMode):
    """Records the calls that do work, in order; views and allocations do none.

    held  tensors that are there anyway: parameters, buffers, inputs; the others' bytes are counted while they live
    """

    def __init__(self, held: list[torch.Tensor]) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.peak_bytes = 0
        self._held = {tensor.untyped_storage()._cdata for tensor in held}
        self._made_by: dict[int, int] = {}
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        written = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self._note_memory(written)
        if _does_work(func):
            read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            self._record(func, args, kwargs, result, read, _each_once([*written, *_overwritten(func, args, kwargs)]))
        return result

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any, read: list[torch.Tensor], written: list[torch.Tensor]) -> None:
        needs = {self._made_by[key] for tensor in read if (key := _key(tensor)) in self._made_by}
        dtype = next((tensor.dtype for tensor in [*written, *read] if tensor.dtype.is_floating_point), None)
        self.calls.append(
            Call(
                func.overloadpacket.__name__ if func.namespace == "aten" else f"{func.namespace}::{func.overloadpacket.__name__}",
                flop_of(func, args, kwargs, result),
                read_bytes_of(func, args, kwargs, read, result),
                sum(bytes_of(tensor) for tensor in written),
                str(dtype or (written or read or [torch.empty(0)])[0].dtype).removeprefix("torch."),
                access_of(func, read),
                tuple(sorted(needs)),
            )
        )
        for tensor in written:
            self._made_by[_key(tensor)] = len(self.calls) - 1

    def _note_memory(self, written: list[torch.Tensor]) -> None:
        for tensor in written:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._held:
                known = self._live.get(storage._cdata)
                if known is None or known[0].expired():
                    self._made_by.pop(storage._cdata, None)
                    self._live[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._live = {key: pair for key, pair in self._live.items() if not pair[0].expired()}
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._live.values()))


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _does_work(func: Any) -> bool:
    allocates = func._schema.name.startswith(("aten::empty", "aten::new_empty"))
    return not func.is_view and not allocates and func.namespace not in ("profiler", "prim") and func.overloadpacket.__name__ not in ("lift_fresh", "detach_")


def _overwritten(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that an operator writes in place. Fused optimizers say so of the gradients, which they scale only where they are given a scale."""
    given = Given(func, args, kwargs)
    names = [argument.name for argument in func._schema.arguments if argument.alias_info and argument.alias_info.is_write]
    if given.name.startswith("_fused_") and not given.has("grad_scale"):
        names = [name for name in names if name != "grads"]
    return [leaf for leaf in tree_leaves([given[name] for name in names]) if isinstance(leaf, torch.Tensor)]


def _each_once(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Without those that are the same elements again: an operator in place also returns what it wrote."""
    return list({(_key(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride()): tensor for tensor in tensors}.values())
