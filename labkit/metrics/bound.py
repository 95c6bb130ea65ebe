"""Bound efficiency: how close the run is to the best that its busiest lane allows.

If everything overlapped perfectly, the busiest lane would never be idle and the run would take its busy time.
So its busy share is the share of that bound that was reached; what is missing is time that overlap could
still win.
"""

from collections.abc import Mapping

from labkit.metrics.metric import Metric
from labkit.metrics.unit_slices import HOST

_DEFINITION = "busy share of the busiest lane (the host aside), in the window"


def busiest_lane(utilization: Mapping[str, Metric]) -> str | None:
    """The lane, the host aside, with the largest busy share; None where none was busy."""
    shares = {lane: metric.value for lane, metric in utilization.items() if lane != HOST and metric.value}
    return max(shares, key=lambda lane: shares[lane]) if shares else None


def bound_efficiency(utilization: Mapping[str, Metric]) -> Metric:
    """The busy share of the busiest lane."""
    lane = busiest_lane(utilization)
    if lane is None:
        return Metric(
            "bound efficiency", None, "share", 0, _DEFINITION, "higher", "no lane was busy in the window"
        )
    share = utilization[lane]
    return Metric("bound efficiency", share.value, "share", share.n, f"{_DEFINITION}: {lane}", "higher")
