"""The roofline: where each operator lies under the roofs of a machine, and which of them holds it back.

    attainable FLOP/s = min(peak, intensity × bandwidth)          S. Williams et al., "Roofline", CACM 52(4), 2009

A third roof lies under both for small operators: the time to launch them. The figures are those of the cost model, and so are the times:
the simulated device and the roofline cannot disagree.
"""

from dataclasses import dataclass
from typing import Literal

from labkit.device.cost_model import CostModel
from labkit.device.machine import Machine
from labkit.profile.task import OpProfile, TaskProfile
from labkit.schedule import Cost
from labkit.units import NS_PER_S, format_percent

Bound = Literal["compute", "memory", "launch", "unknown"]


@dataclass(frozen=True)
class Roofs:
    """A machine's roofs for one number format: FLOP/s and bytes/s that large kernels reach, and the least time of a launch."""

    flop_per_s: float
    bytes_per_s: float
    launch_ns: float

    @property
    def ridge(self) -> float:
        """FLOP a byte from which on the peak is the roof."""
        return self.flop_per_s / self.bytes_per_s


@dataclass(frozen=True)
class Placed:
    """One kind of operator under the roofs.

    time_ns  of all its calls: a prediction; None where its FLOP are unknown
    flop_per_s  reached in that time
    """

    op: OpProfile
    bound: Bound
    time_ns: float | None
    flop_per_s: float | None


def roofs(machine: Machine, dtype: str) -> Roofs:
    """The roofs for a number format. Raises MachineError where a figure is missing: nothing is guessed."""
    if machine.kind == "cpu":
        return Roofs(machine["host_flop_per_s"], machine["host_bytes_per_s"], 0.0)
    peak = machine["gpu_flop_per_s" if dtype in ("float16", "bfloat16") else "gpu_fp32_flop_per_s"]
    launch_ns = max(machine.get("launch_ns") or 0.0, machine["gpu_min_kernel_ns"])
    return Roofs(peak * machine["gpu_flop_share"], machine["hbm_bytes_per_s"] * machine["hbm_share"], launch_ns)


def place(profile: TaskProfile, machine: Machine) -> tuple[Placed, ...]:
    """Every kind of operator under this machine's roofs. Raises MachineError for a figure that is missing."""
    return tuple(_placed(op, machine) for op in profile.ops)


def sentence(placed: tuple[Placed, ...], machine: Machine) -> str:
    """`Predicted time on H200: 62 % memory-bound, 30 % launch-bound, 8 % compute-bound.`"""
    whole = sum(each.time_ns or 0.0 for each in placed)
    shares = {bound: sum(each.time_ns or 0.0 for each in placed if each.bound == bound) for bound in ("compute", "memory", "launch")}
    largest_first = sorted(((bound, ns) for bound, ns in shares.items() if ns), key=lambda pair: -pair[1])
    parts = [f"{100 * ns / whole:.0f} % {bound}-bound" for bound, ns in largest_first]
    unknown = [each.op.name for each in placed if each.bound == "unknown"]
    words = f"Predicted time on {machine.label}: {', '.join(parts) or 'unknown'}"
    if not unknown:
        return f"{words}."
    moved = sum(each.op.unknown_bytes for each in placed) / max(sum(each.op.bytes for each in placed), 1)
    left_out = f"they move {format_percent(moved)} of the bytes, and their time is not in it"
    return f"{words}; {len(unknown)} of {len(placed)} operators are unknown: {', '.join(unknown)}; {left_out}."


def _placed(op: OpProfile, machine: Machine) -> Placed:
    if op.unknown:
        return Placed(op, "unknown", None, None)
    roof = roofs(machine, op.dtype)
    cost = Cost(flop=op.flop, bytes=op.bytes, launches=op.calls, bits=16 if op.dtype in ("float16", "bfloat16") else 32)
    kernel_ns = CostModel(machine).duration_ns(op.name, "compute", cost)
    launch_ns = roof.launch_ns * op.calls
    by_flop, by_bytes = op.flop / roof.flop_per_s * NS_PER_S, op.bytes / roof.bytes_per_s * NS_PER_S
    bound: Bound = "launch" if launch_ns >= max(by_flop, by_bytes) and launch_ns > 0 else "compute" if by_flop >= by_bytes else "memory"
    time_ns = max(float(kernel_ns), launch_ns)
    return Placed(op, bound, time_ns, op.flop * NS_PER_S / time_ns if op.flop else None)
