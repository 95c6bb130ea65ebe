"""What a piece of torch work asks of the hardware: counted once on meta tensors, nothing is computed.

FLOP come from torch's own counter. Bytes are those that eager execution moves: every operator reads its inputs from
memory and writes its outputs to it. Launches are the operators that do work: views, allocations and profiler marks do none.
Resident is what autograd keeps for the backward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from labkit.schedule import Cost


class _Traffic(TorchDispatchMode):
    """Counts operators and the bytes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.launches = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _does_work(func):
            written = _overwritten(func, args) if result is None else result
            tensors = [leaf for leaf in tree_leaves((args, kwargs, written)) if isinstance(leaf, torch.Tensor)]
            self.bytes += sum(_size(tensor) for tensor in tensors)
            self.launches += 1
        return result


def _does_work(func: Any) -> bool:
    allocates = func._schema.name.startswith(("aten::empty", "aten::new_empty"))
    return not func.is_view and not allocates and func.namespace != "profiler"


def _overwritten(func: Any, args: Any) -> list[Any]:
    """The arguments that an in-place operator writes; those over lists of tensors return nothing."""
    declared = zip(func._schema.arguments, args, strict=False)
    return [value for argument, value in declared if argument.alias_info and argument.alias_info.is_write]


def footprint(work: Callable[[], Any]) -> tuple[Cost, Any]:
    """The cost of calling `work`, and what it returned. `work` should use meta tensors."""
    traffic = _Traffic()
    flops = FlopCounterMode(display=False)
    kept = _Kept()
    with flops, traffic, torch.autograd.graph.saved_tensors_hooks(kept.keep, _as_it_is):
        result = work()
    cost = Cost(flop=flops.get_total_flops(), bytes=traffic.bytes, launches=max(traffic.launches, 1), resident=kept.bytes)
    return cost, result


def training_state_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes that training holds all the time: parameters, their gradients, buffers, and the optimizer's state as it is now."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    state = [leaf for leaf in tree_leaves(list(optimizer.state.values())) if isinstance(leaf, torch.Tensor)]
    return sum(_size(tensor) for tensor in [*model.parameters(), *trained, *model.buffers(), *state])


class _Kept:
    """Counts the bytes of what autograd keeps, each storage once, parameters apart: they are there anyway."""

    def __init__(self) -> None:
        self.bytes = 0
        self._seen: dict[int, Any] = {}

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen and not isinstance(tensor, torch.nn.Parameter):
            self._seen[storage._cdata] = storage  # held, so that its address is not used again
            self.bytes += storage.nbytes()
        return tensor


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
