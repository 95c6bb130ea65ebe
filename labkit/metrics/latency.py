"""Latency of steps, two ways not to be mixed: how often one completes, and how old its batch is by then.

Pipelining shortens the step interval and lengthens the batch age: a batch that was loaded ahead waits for its
turn.
"""

import numpy as np

from labkit.metrics.metric import Metric
from labkit.metrics.percentiles import percentile, percentile_name
from labkit.metrics.window import Window
from labkit.trace import KIND_OP, Trace

QUANTILES = (0.5, 0.95, 0.99)

_INTERVAL = "time from one completion to the next, in the steady window"
_AGE = (
    "time from the earliest start of any op of a step to the end of the op that completes it, in the steady window"
)


def step_intervals_ns(trace: Trace, window: Window) -> np.ndarray:
    """Times between successive completions, the first counted from the completion that opened the window."""
    if not window.steady:
        return np.empty(0, np.int64)
    return np.diff(trace["end_ns"][window.rows], prepend=window.start_ns)


def batch_ages_ns(trace: Trace, window: Window) -> np.ndarray:
    """For each completion of a step: the age of its batch. Completions that belong to no step have none."""
    rows = window.rows[trace["step"][window.rows] >= 0]
    if len(rows) == 0:
        return np.empty(0, np.int64)
    steps, first_start = _first_starts(trace)
    return trace["end_ns"][rows] - first_start[np.searchsorted(steps, trace["step"][rows])]


def step_interval(trace: Trace, window: Window) -> dict[str, Metric]:
    """`mean`, `p50`, `p95`, `p99` of the step interval, in ns."""
    return step_interval_of(step_intervals_ns(trace, window))


def step_interval_of(intervals: np.ndarray) -> dict[str, Metric]:
    """The same of intervals in ns, which may come from several windows."""
    value = float(intervals.mean()) if len(intervals) else None
    reason = None if len(intervals) else "no step interval: nothing completed after the warm-up"
    mean = Metric("step interval mean", value, "ns", len(intervals), f"mean {_INTERVAL}", "lower", reason)
    return {"mean": mean, **_percentiles(intervals, "step interval", _INTERVAL)}


def batch_age(trace: Trace, window: Window) -> dict[str, Metric]:
    """`p50`, `p95`, `p99` of the batch age, in ns."""
    return batch_age_of(batch_ages_ns(trace, window))


def batch_age_of(ages: np.ndarray) -> dict[str, Metric]:
    """The same of ages in ns, which may come from several windows."""
    return _percentiles(ages, "batch age", _AGE)


def _percentiles(samples: np.ndarray, name: str, definition: str) -> dict[str, Metric]:
    words = {percentile_name(q): q for q in QUANTILES}
    return {
        word: percentile(samples, q, name=f"{name} {word}", definition=f"{word} of the {definition}")
        for word, q in words.items()
    }


def _first_starts(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The steps of the trace in ascending order, and the earliest start of an op of each."""
    ran = np.flatnonzero((trace["kind"] == KIND_OP) & (trace["step"] >= 0) & (trace["start_ns"] >= 0))
    ran = ran[np.lexsort((trace["start_ns"][ran], trace["step"][ran]))]
    steps, first = np.unique(trace["step"][ran], return_index=True)
    return steps, trace["start_ns"][ran][first]
