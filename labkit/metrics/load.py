"""Where the work of a run came from, and who was its limit: the server that is measured, or the generator of its load.

An open loop sends requests when they are due, whatever the server does; a closed loop sends the next one when the server is ready for it,
and so never asks more of it than it gives (B. Schroeder, A. Wierman, M. Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI 2006).
"""

from collections.abc import Sequence

import numpy as np

from labkit.metrics.bound import busiest_lane
from labkit.metrics.metric import Metric
from labkit.metrics.percentiles import percentile_name, quantile, samples_needed
from labkit.metrics.requests import counted_requests
from labkit.metrics.summary import Summary
from labkit.metrics.unit_slices import HOST
from labkit.metrics.window import Window
from labkit.trace import Trace
from labkit.units import NS_PER_MS, format_percent, format_time

AT_CAPACITY = 0.95
"""Busy share from which a lane counts as never out of work."""
IDLE = 0.5
"""Share of the time below which a run in which anything ran counts as one that waited for its load."""
LATE_ALLOWED_NS = 5 * NS_PER_MS
BACKLOG, MANY = 3.0, 20
"""Times the mean number in the system, and requests at least, from which what the warm-up left behind counts as a backlog."""

CLOSED = "closed loop: each step was asked for when the program was ready for it"
OPEN = "open loop: requests came when they were due, whatever the server did"


def generator_late(
    scheduled_ns: Sequence[int] | np.ndarray, sent_ns: Sequence[int] | np.ndarray, allowed_ns: int = LATE_ALLOWED_NS
) -> str | None:
    """Why the load generator does not do what it should; None where it was in time, or nothing was sent.

    scheduled_ns, sent_ns  of each request: when it was meant to be sent, and when it was; of equal length
    allowed_ns             lateness that is let pass, of the highest percentile that so many requests have (p99, p95), else of the latest
    """
    late = np.sort(np.asarray(sent_ns, np.int64) - np.asarray(scheduled_ns, np.int64))
    if not len(late):
        return None
    q = next((q for q in (0.99, 0.95) if len(late) >= samples_needed(q)), 1.0)
    value = quantile(late, q)
    if value <= allowed_ns:
        return None
    which = "the latest request was" if q == 1.0 else f"{percentile_name(q)} of the requests was"
    return f"the load generator was late: {which} sent {format_time(value)} after it was due; up to {format_time(allowed_ns)} is let pass"


def requests_late(trace: Trace, window: Window, warmup_steps: int) -> str | None:
    """`generator_late` of the requests of a run that serves, as the host took them in; None for any other run."""
    columns = counted_requests(trace, window, warmup_steps).columns
    return generator_late(columns["due_ns"], columns["admitted_ns"])


def backlog_of_warmup(trace: Trace, window: Window, warmup_steps: int) -> str | None:
    """That the warm-up left more requests waiting than the server usually has: the tail is then that of working them off. None where it did not,
    or where nothing was excluded."""
    columns = trace.requests
    if not warmup_steps or not window.steady or not len(columns["request"]):
        return None
    there = int(((columns["due_ns"] < window.start_ns) & (columns["done_ns"] > window.start_ns)).sum())
    inside = np.clip(np.minimum(columns["done_ns"], window.end_ns) - np.maximum(columns["due_ns"], window.start_ns), 0, None)
    usual = int(inside.sum()) / max(window.wall_ns, 1)
    if there < MANY or there <= BACKLOG * usual:
        return None
    return f"{there:,} requests of the warm-up had no answer yet when counting began, {usual:.3g} is usual in this run: the tail holds their backlog; give a longer warm-up"


def is_open_loop(trace: Trace) -> bool:
    """Whether requests arrived, rather than that the program asked for its next step."""
    return len(trace.requests["request"]) > 0 or bool(trace.requests_dropped)


def capacity(summary: Summary) -> str | None:
    """That the busiest lane, or the host, was never out of work, and so the limit; None where none was."""
    lane = busiest_lane(summary.utilization)
    shares = {name: _share(summary.utilization, name) for name in (lane, HOST) if name is not None}
    name = max(shares, key=lambda each: shares[each], default=None)
    if name is None or shares[name] < AT_CAPACITY:
        return None
    what = "the host program" if name == HOST else name
    return f"at capacity: {what} always had work waiting, busy {format_percent(shares[name])} of the time"


def idle(summary: Summary) -> str | None:
    """How little ran, where the run waited for its load: no lane was busy, and the host was not either; None elsewhere."""
    shares = summary.utilization.values()
    at_most = sum(metric.n * (metric.value or 0.0) for metric in shares)
    if not shares or at_most >= IDLE:
        return None
    return f"no lane was busy and the host was not either: something ran at most {format_percent(at_most)} of the time"


def _share(utilization: dict[str, Metric], lane: str) -> float:
    return (utilization[lane].value or 0.0) if lane in utilization else 0.0
