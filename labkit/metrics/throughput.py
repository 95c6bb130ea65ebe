"""Throughput: items completed per second of the steady window."""

from labkit.metrics.metric import Metric
from labkit.metrics.window import Window, completions
from labkit.trace import Trace
from labkit.units import NS_PER_S

_DEFINITION = "items completed in the steady window ÷ its length"


def throughput(trace: Trace, window: Window) -> Metric:
    """Items per second; `n` is the completions counted. One completion spans no time, so two are needed."""
    if not window.steady:
        have = len(completions(trace))
        reason = (
            f"throughput needs 2 completions: one opens the window, one lies inside; there are {have} in all"
        )
        if have > 1:
            reason = f"none of the {have} completions lies after the warm-up: run more steps"
        return Metric("throughput", None, "items/s", 0, _DEFINITION, "higher", reason)
    items = int(trace["items"][window.rows].sum())
    rate = items * NS_PER_S / window.wall_ns
    return Metric("throughput", rate, "items/s", len(window.rows), _DEFINITION, "higher")
