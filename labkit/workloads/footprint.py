"""What a piece of torch work asks of the hardware: counted once on meta tensors, nothing is computed.

FLOP come from torch's own counter. Bytes are those that eager execution moves: every operator reads its inputs from
memory and writes its outputs to it. Launches are the operators that do work: views, allocations and profiler marks do none.
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
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
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
    with flops, traffic:
        result = work()
    return Cost(flop=flops.get_total_flops(), bytes=traffic.bytes, launches=max(traffic.launches, 1)), result
