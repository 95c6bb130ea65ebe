"""A task's profile: its operators by kind and as a whole, how parallel it is, what memory it needs at the most."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from labkit.errors import ExperimentError

MakeOptimizer = Callable[[Any], Any]
"""Makes a `torch.optim.Optimizer` of a model's parameters."""


@dataclass(frozen=True)
class OpProfile:
    """All calls of one operator in one number format.

    flop    of those calls whose FLOP are known; `unknown` counts the others
    access  "sequential", "strided", "gather" or "reduction": how most calls go through memory
    unknown_bytes  what those calls move whose FLOP are unknown; part of `bytes`
    """

    name: str
    dtype: str
    calls: int
    flop: int
    unknown: int
    read_bytes: int
    write_bytes: int
    access: str
    unknown_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.write_bytes

    @property
    def intensity(self) -> float | None:
        """FLOP a byte; None where FLOP are unknown or nothing is moved."""
        return None if self.unknown or not self.bytes else self.flop / self.bytes


@dataclass(frozen=True)
class TaskProfile:
    """What one call of a task asks of the hardware.

    ops              most FLOP first, then most bytes
    span_flop        FLOP on the longest chain of calls that need each other; work ÷ span is the parallelism of the graph
    span_calls       calls on the longest chain
    peak_bytes       of tensors made meanwhile, at the moment of most; parameters, inputs and an optimizer's state apart
    state_bytes      of the optimizer's state, where there is one
    """

    name: str
    train: bool
    ops: tuple[OpProfile, ...]
    span_flop: int
    span_calls: int
    peak_bytes: int
    parameter_bytes: int
    input_bytes: int
    state_bytes: int = 0

    @property
    def calls(self) -> int:
        """Operators called: launches of an eager program."""
        return sum(op.calls for op in self.ops)

    @property
    def flop(self) -> int:
        """FLOP in all; at least this many where some calls are unknown."""
        return sum(op.flop for op in self.ops)

    @property
    def bytes(self) -> int:
        """Bytes that eager execution reads and writes."""
        return sum(op.bytes for op in self.ops)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The operators with calls whose FLOP nobody knows."""
        return tuple(op.name for op in self.ops if op.unknown)

    @property
    def unknown_share(self) -> float:
        """The share of the bytes that calls move whose FLOP nobody knows."""
        return sum(op.unknown_bytes for op in self.ops) / self.bytes if self.bytes else 0.0

    @property
    def parallelism(self) -> float | None:
        """Work ÷ span in FLOP: 1 is one chain; None where nothing is counted."""
        return self.flop / self.span_flop if self.span_flop else None


def profile(model: Callable[..., Any], *inputs: Any, train: bool = False, optimizer: MakeOptimizer | None = None, name: str = "") -> TaskProfile:
    """Run `model(*inputs)` once, with the backward pass of the sum of its results where `train`, and count it.

    optimizer  makes an optimizer of the parameters, as `torch.optim.AdamW` does: its step is counted too, after the backward pass. It is that
               of a run under way, which has its state; it is taken on a copy of the model, so that the one given stays as it is

    Raises ExperimentError where `train` is asked for and nothing can be learned from; what the model raises goes through.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    from labkit.profile.counting import Counting
    from labkit.profile.formulas import bytes_of

    run, stepping = _under_way(model, optimizer)
    parameters = list(run.parameters()) + list(run.buffers()) if isinstance(run, torch.nn.Module) else []
    given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    state = [leaf for leaf in tree_leaves(list(stepping.state.values())) if isinstance(leaf, torch.Tensor)] if stepping is not None else []
    counting = Counting([*parameters, *given, *state])
    with torch.set_grad_enabled(train or stepping is not None), counting:
        result = run(*inputs)
        if train or stepping is not None:
            losses = [leaf.sum() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            if not losses:
                raise ExperimentError("train=True, and nothing that the model returns depends on a parameter: there is no backward pass")
            torch.stack(losses).sum().backward()
        if stepping is not None:
            stepping.step()
    span_flop, span_calls = _spans(counting.calls)
    return TaskProfile(
        name or getattr(model, "__name__", type(model).__name__), train or stepping is not None, _by_kind(counting.calls), span_flop, span_calls,
        counting.peak_bytes, *(sum(bytes_of(tensor) for tensor in tensors) for tensors in (parameters, given, state)),
    )  # fmt: skip


def _under_way(model: Callable[..., Any], optimizer: MakeOptimizer | None) -> tuple[Callable[..., Any], Any]:
    """The model and no optimizer; or a copy of the model, and an optimizer of its parameters that has taken a step and has its state."""
    if optimizer is None:
        return model, None
    import torch

    learned = [each for each in model.parameters() if each.requires_grad] if isinstance(model, torch.nn.Module) else []
    if not learned:
        raise ExperimentError(f"optimizer={optimizer!r} needs a torch.nn.Module with parameters that can be learned; this is {type(model).__name__}")
    run = deepcopy(model)
    stepping = optimizer(run.parameters())
    for each in run.parameters():
        each.grad = torch.zeros_like(each) if each.requires_grad else None
    stepping.step()
    stepping.zero_grad(set_to_none=True)
    return run, stepping


def _by_kind(calls: list[Any]) -> tuple[OpProfile, ...]:
    groups: dict[tuple[str, str], list[Any]] = {}
    for call in calls:
        groups.setdefault((call.name, call.dtype), []).append(call)
    ops = [
        OpProfile(
            name, dtype, len(group), sum(call.flop or 0 for call in group), sum(call.flop is None for call in group),
            sum(call.read_bytes for call in group), sum(call.write_bytes for call in group),
            Counter(call.access for call in group).most_common(1)[0][0],
            sum(call.read_bytes + call.write_bytes for call in group if call.flop is None),
        )
        for (name, dtype), group in groups.items()
    ]  # fmt: skip
    return tuple(sorted(ops, key=lambda op: (-op.flop, -op.bytes, op.name)))


def _spans(calls: list[Any]) -> tuple[int, int]:
    """The longest chain by FLOP, and by calls."""
    flop, length = [], []
    for call in calls:
        flop.append((call.flop or 0) + max((flop[need] for need in call.needs), default=0))
        length.append(1 + max((length[need] for need in call.needs), default=0))
    return max(flop, default=0), max(length, default=0)
