"""What an op costs on a machine: from its figures, or from op times that were measured.

Kernel time is the roofline's: the larger of FLOP ÷ reachable rate, bytes ÷ reachable bandwidth, and the shortest
kernel times the number of launches (S. Williams et al., "Roofline", CACM 52(4), 2009). A copy is a latency plus bytes
over the link's rate. Host work is the sum of its parts on one core.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from labkit.device.machine import Machine
from labkit.schedule import Cost
from labkit.units import NS_PER_S


@dataclass(frozen=True)
class MeasuredOp:
    """The mean duration of an op that was measured, and the cost it had then."""

    mean_ns: float
    cost: Cost
    n: int = 1

    def scaled_ns(self, cost: Cost) -> float:
        """The duration to expect for another cost: in proportion to what the op mainly asks for."""
        asks = (
            (self.cost.jpeg_pixels, cost.jpeg_pixels),
            (self.cost.flop, cost.flop),
            (self.cost.bytes, cost.bytes),
            (self.cost.fixed_ns, cost.fixed_ns),
        )
        was, is_now = next((pair for pair in asks if pair[0] > 0 and pair[1] > 0), (1, 1))
        return self.mean_ns * is_now / was


@dataclass(frozen=True)
class MeasuredCosts:
    """Op times measured in one run: by op name, and the host's own overheads.

    ops          op name → its mean duration
    submit_ns    mean host time of a submit
    wake_ns      mean time from the end of the awaited op to the host running again
    dispatch_ns  lane role → mean time from an op being ready to its start
    source       the run they came from
    """

    ops: Mapping[str, MeasuredOp]
    submit_ns: float = 0.0
    wake_ns: float = 0.0
    dispatch_ns: Mapping[str, float] = field(default_factory=dict)
    source: str = ""


class CostModel:
    """Durations on one machine. `measured` op times, where there are any, go before the machine's figures.

    compute_share  share of the GPU's compute units that kernels may use. As under MPS it scales the FLOP rate and leaves the memory
                   bandwidth alone, which MPS does not divide (MIG does; NVIDIA MIG user guide, "CUDA concurrency mechanisms").
                   A measured kernel is scaled as its cost is by the machine's figures.
    """

    def __init__(self, machine: Machine, measured: MeasuredCosts | None = None):
        self.machine = machine
        self.measured = measured
        self.compute_share = 1.0

    def duration_ns(self, name: str, role: str, cost: Cost) -> int:
        """How long an op occupies its lane, at least 1 ns."""
        known = self.measured.ops.get(name) if self.measured else None
        if known is not None:
            return max(round(known.scaled_ns(cost) * self._slowed(role, cost)), 1)
        if role in ("h2d", "d2h"):
            return max(round(self._copy_ns(role, cost) + cost.fixed_ns), 1)
        if role == "compute" and self.machine.kind == "cuda":
            return max(round(self._kernel_ns(cost) + cost.fixed_ns), 1)
        return max(round(self._host_work_ns(cost) + cost.fixed_ns), 1)

    def host_ns(self, role: str, cost: Cost) -> int:
        """How long `submit` holds the host for an op that does not block it, at least 1 ns."""
        if self.measured is not None and self.measured.submit_ns:
            return max(round(self.measured.submit_ns), 1)
        submit = self.machine.get("submit_ns") or 0
        if self.machine.kind == "cuda" and role in ("compute", "h2d", "d2h"):
            submit += cost.launches * (self.machine.get("launch_ns") or 0)
        return max(round(submit), 1)

    @property
    def wake_ns(self) -> int:
        """From the end of an op to the host running again."""
        return round(self.measured.wake_ns if self.measured else self.machine.get("wake_ns") or 0)

    def dispatch_ns(self, role: str) -> int:
        """From an op being ready to its start."""
        if self.measured is not None:
            return round(self.measured.dispatch_ns.get(role, 0))
        threads = self.machine.kind == "cpu" or role in ("workers", "disk", "net")
        return round(self.machine.get("dispatch_ns") or 0) if threads else 0

    def _slowed(self, role: str, cost: Cost) -> float:
        """How many times longer a measured op takes on its share of the compute units."""
        if self.compute_share == 1.0 or role != "compute" or self.machine.kind != "cuda" or not cost.flop:
            return 1.0
        return self._kernel_ns(cost) / self._kernel_ns(cost, share=1.0)

    def _kernel_ns(self, cost: Cost, share: float | None = None) -> float:
        figure = self.machine.__getitem__
        peak = "gpu_flop_per_s" if cost.bits == 16 else "gpu_fp32_flop_per_s"
        share = self.compute_share if share is None else share
        by_flop = cost.flop / (figure(peak) * figure("gpu_flop_share") * share) if cost.flop else 0.0
        by_bytes = cost.bytes / (figure("hbm_bytes_per_s") * figure("hbm_share"))
        return max(by_flop * NS_PER_S, by_bytes * NS_PER_S, cost.launches * figure("gpu_min_kernel_ns"))

    def _copy_ns(self, role: str, cost: Cost) -> float:
        rate = "link_pageable_bytes_per_s" if cost.pageable else f"link_{role}_bytes_per_s"
        return (self.machine.get("link_latency_ns") or 0) + cost.bytes / self.machine[rate] * NS_PER_S

    def _host_work_ns(self, cost: Cost) -> float:
        """Decoding is billed by its pixels; other work by the larger of its FLOP and its bytes."""
        seconds = cost.jpeg_pixels / self.machine["decode_pixels_per_s"] if cost.jpeg_pixels else 0.0
        by_flop = cost.flop / self.machine["host_flop_per_s"] if cost.flop else 0.0
        by_bytes = cost.bytes / self.machine["host_bytes_per_s"] if cost.bytes else 0.0
        return (seconds + max(by_flop, by_bytes)) * NS_PER_S
