"""What a user's training step asks of the hardware, by batch size: counted on a copy of the model without values.

The copy has meta tensors where the model has parameters and buffers; no memory is taken and nothing is computed.
Attention is counted as its unfused form, recurrent layers step by step, weights of 16 bits as arithmetic of 16 bits.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from labkit.schedule import Cost
from labkit.workloads.batches import BatchForm, tensors_of
from labkit.workloads.footprint import footprint, training_state_bytes
from labkit.workloads.parts import Learning


class TrainingCosts:
    """The costs of forward, backward and update. Whatever the model raises when it is run without values, they raise.

    learning  with its model made; it is left as it is
    form      of the batches
    """

    def __init__(self, learning: Learning, form: BatchForm):
        model, loss = (without_values(part) for part in (learning.model, learning.loss))
        self._learning = Learning(model, loss, learning.optimizer)
        self._form = form
        self._bits = 16 if all(each.element_size() == 2 for each in model.parameters()) else 32
        self._by_size: dict[int, dict[str, Cost]] = {}

    def __call__(self, stage: str, size: int) -> Cost:
        """The cost of "forward", "backward" or "update" for a batch of `size` items."""
        if size not in self._by_size:
            self._by_size[size] = self._counted(size)
        return self._by_size[size][stage]

    def _counted(self, size: int) -> dict[str, Cost]:
        batch = self._form.on_meta(size)
        with _WithoutValues():
            forward, loss = footprint(lambda: self._learning.loss_of(batch))
            backward, _ = footprint(loss.backward)
        known = next(iter(self._by_size.values()), None)
        update = known["update"] if known else self._count_update()
        self._learning.model.zero_grad()
        resident = forward.resident + update.resident
        passes = {"forward": forward, "backward": backward}
        return {name: cost._replace(bits=self._bits, resident=resident) for name, cost in passes.items()} | {"update": update}

    def _count_update(self) -> Cost:
        """The cost of the update; resident is what training holds all the time."""
        optimizer = self._learning.optimizer_of(self._learning.model)
        _as_on_a_gpu(optimizer)
        optimizer.step()  # the first one allocates its state
        cost, _ = footprint(optimizer.step)
        return cost._replace(resident=training_state_bytes(self._learning.model, optimizer))


def without_values(part: Any) -> Any:
    """A copy of a module whose parameters and buffers are meta tensors; a plain function as it is."""
    if not isinstance(part, torch.nn.Module):
        return part
    memo: dict[int, Any] = {}
    for parameter in part.parameters():
        memo[id(parameter)] = torch.nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    for buffer in part.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return copy.deepcopy(part, memo).train()


class _WithoutValues(TorchDispatchMode):
    """Lets tensors with values meet meta tensors: a mask made in forward, the weights of a loss. The result has none."""

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(tensor.is_meta for tensor in tensors_of((args, kwargs))):
            args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
            if kwargs.get("device") is not None:
                kwargs = {**kwargs, "device": torch.device("meta")}
        return func(*args, **kwargs)


def _as_on_a_gpu(optimizer: torch.optim.Optimizer) -> None:
    """Where nobody chose, torch updates all tensors by a few kernels on a GPU, and one by one elsewhere."""
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True
