"""Utilization: the busy share of each lane's units over the steady window.

A busy lane is an occupied lane: on a CUDA stream gaps between the kernels of one op count as busy. It is not
the "GPU utilization" that NVML reports.
"""

from labkit.metrics.metric import Metric
from labkit.metrics.stalls import LaneAccount

_DEFINITION = "busy time of the lane's units ÷ time that they existed, in the window"


def utilization(accounts: tuple[LaneAccount, ...], start_ns: int, end_ns: int) -> dict[str, Metric]:
    """The busy share of each lane between two instants; `n` is the units that existed then."""
    shares: dict[str, Metric] = {}
    for lane in dict.fromkeys(unit.lane for unit in accounts):
        units = [unit for unit in accounts if unit.lane == lane and unit.span_within(start_ns, end_ns)]
        span = sum(unit.span_within(start_ns, end_ns) for unit in units)
        busy = span - sum(sum(unit.stalled_within(start_ns, end_ns).values()) for unit in units)
        value, reason = (
            (busy / span, None) if span else (None, f"the lane {lane} did not exist in the window")
        )
        shares[lane] = Metric("busy share", value, "share", len(units), _DEFINITION, None, reason)
    return shares
