"""Measured wrongly on purpose: what the usual mistakes would have made of a run, beside what is right.

Each mistake is made on the run's own trace, so both numbers are of the same work; what a mistake needs and the trace does not have is told
as the reason. Every wrong number is INVALID, whatever the run's verdict is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labkit.metrics.bound import busiest_lane
from labkit.metrics.latency import step_intervals_ns
from labkit.metrics.percentiles import percentile
from labkit.metrics.stalls import account
from labkit.metrics.throughput import throughput
from labkit.metrics.utilization import utilization
from labkit.metrics.window import Window, completions, steady_window
from labkit.schedule import Status
from labkit.trace import KIND_OP, KIND_WAIT, Trace
from labkit.units import NS_PER_MS, NS_PER_S

WINDOWS = 10
LOAD = 0.8
"""Share of the capacity at which requests are offered where latency is measured from the wrong instant."""


@dataclass(frozen=True)
class Mistake:
    """One mistake and what it does to one number.

    name    what is done wrong
    number  what is measured, and its `unit`
    right, wrong  None where the run does not show it, with the `reason`
    why     in one line: why that is wrong
    """

    name: str
    number: str
    unit: str
    right: float | None
    wrong: float | None
    why: str
    reason: str = ""

    @property
    def factor(self) -> float | None:
        """Wrong ÷ right."""
        return self.wrong / self.right if self.wrong is not None and self.right else None


def mistakes(trace: Trace, warmup_steps: int = 0) -> tuple[Mistake, ...]:
    """Every mistake, made on this run. Raises TraceError for a malformed trace."""
    window = steady_window(trace, warmup_steps)
    return tuple(make(trace, window) for make in _MISTAKES)


def _no_sync(trace: Trace, window: Window) -> Mistake:
    words = ("no sync", "throughput", "items/s")
    why = "the clock is read when the work has been submitted, not when it is done: launching is measured"
    right = throughput(trace, window).value
    steps = np.unique(trace["step"][window.rows])
    submitted = (trace["kind"] == KIND_OP) & np.isin(trace["step"], steps)
    inside_ns = int((trace["queued_ns"] - trace["submit_ns"])[submitted].sum())
    if right is None or inside_ns <= 0:
        return Mistake(*words, right, None, why, "nothing was submitted in the steady window")
    return Mistake(*words, right, int(trace["items"][window.rows].sum()) * NS_PER_S / inside_ns, why)


def _warmup_included(trace: Trace, window: Window) -> Mistake:
    words = ("warm-up included", "throughput", "items/s")
    why = "the first steps load, compile and fill caches; they are measured with the steps that one wants to know of"
    right, done = throughput(trace, window).value, completions(trace)
    if right is None or len(done) == len(window.rows) + 1:
        return Mistake(*words, right, None, why, "no step was excluded as warm-up")
    whole_ns = int(trace["end_ns"][done].max() - trace["submit_ns"].min())
    return Mistake(*words, right, int(trace["items"][done].sum()) * NS_PER_S / whole_ns, why)


def _closed_loop(trace: Trace, window: Window) -> Mistake:
    words = ("closed loop", "p99 of latency, requests offered at 80 % of the capacity", "ms")
    why = "latency from when a request was sent: while one is slow no other is sent, so nobody counts those that had to wait (coordinated omission)"
    service_ns = step_intervals_ns(trace, window)
    if len(service_ns) < 100:
        return Mistake(*words, None, None, why, f"p99 needs 100 steps in the steady window; there are {len(service_ns)}")
    return Mistake(*words, _in_ms(_p(_latencies_ns(service_ns, LOAD), 0.99)), _in_ms(_p(service_ns, 0.99)), why)


def _latencies_ns(service_ns: np.ndarray, load: float) -> np.ndarray:
    """From due to done, of requests that are due at equal distances and served one at a time. The arrivals are made up, the service
    times are the measured step intervals."""
    gap_ns = round(int(service_ns.sum()) / len(service_ns) / load)
    latencies, free_ns = [], 0
    for place, service in enumerate(service_ns.tolist()):
        due_ns = place * gap_ns
        free_ns = max(due_ns, free_ns) + service
        latencies.append(free_ns - due_ns)
    return np.array(latencies, np.int64)


def _mean_of_percentiles(trace: Trace, window: Window) -> Mistake:
    words = ("mean of percentiles", "p95 of the step interval", "ms")
    why = "percentiles of parts cannot be averaged: slow steps that lie together count in one part only"
    intervals = step_intervals_ns(trace, window)
    if len(intervals) < 20 * WINDOWS:
        return Mistake(*words, None, None, why, f"ten parts of 20 steps are needed; there are {len(intervals)} steps")
    parts = [_p(part, 0.95) for part in np.array_split(intervals, WINDOWS)]
    known = [part for part in parts if part is not None]
    return Mistake(*words, _in_ms(_p(intervals, 0.95)), _in_ms(float(np.mean(known))), why)


def _mean_alone(trace: Trace, window: Window) -> Mistake:
    words = ("mean alone", "the slow steps (p95 of the step interval)", "ms")
    why = "a mean says nothing of the steps that people wait for"
    intervals = step_intervals_ns(trace, window)
    right = _p(intervals, 0.95)
    if right is None:
        return Mistake(*words, None, None, why, f"p95 needs 20 steps in the steady window; there are {len(intervals)}")
    return Mistake(*words, _in_ms(right), _in_ms(float(intervals.mean())), why)


def _one_sample(trace: Trace, window: Window) -> Mistake:
    accounts = account(trace)
    busy = utilization(accounts, window.start_ns, window.end_ns)
    lane = busiest_lane(busy)
    words = ("one utilization sample", f"busy share of {lane or 'the busiest lane'}", "%")
    why = "at one instant a lane is busy or it is not: a sample says 0 or 100, and never how much"
    if lane is None or busy[lane].value is None:
        return Mistake(*words, None, None, why, "no lane but the host was busy")
    middle_ns = (window.start_ns + window.end_ns) // 2
    rows = trace.rows_on(lane)
    units = sum(unit.lane == lane for unit in accounts)
    at_once = int(((trace["start_ns"][rows] <= middle_ns) & (trace["end_ns"][rows] > middle_ns)).sum())
    return Mistake(*words, 100 * busy[lane].value, 100 * at_once / units, why)


def _one_after_the_other(trace: Trace, window: Window) -> Mistake:
    words = ("A, then B", "second half against first, the same setting", "×")
    why = "between two runs the machine changes: what is measured is its mood; settings must take turns"
    half = len(window.rows) // 2
    if half < 10:
        return Mistake(*words, None, None, why, f"two halves of 10 steps are needed; there are {len(window.rows)} steps")
    ends, items = trace["end_ns"][window.rows], trace["items"][window.rows]
    first = int(items[:half].sum()) / int(ends[half - 1] - window.start_ns)
    second = int(items[half:].sum()) / int(ends[-1] - ends[half - 1])
    return Mistake(*words, 1.0, second / first, why)


def _failures_counted(trace: Trace, window: Window) -> Mistake:
    words = ("failed work counted", "ops done", "ops")
    why = "what failed ends early: counted as done, it makes the machine look fast"
    inside = (trace["kind"] != KIND_WAIT) & (trace["end_ns"] > window.start_ns) & (trace["end_ns"] <= window.end_ns)
    ok = int((inside & (trace["status"] == Status.OK)).sum())
    ended = int((inside & np.isin(trace["status"], (Status.OK, Status.FAILED))).sum())
    if ended == ok:
        return Mistake(*words, float(ok), None, why, "no op failed")
    return Mistake(*words, float(ok), float(ended), why)


_MISTAKES: tuple[Callable[[Trace, Window], Mistake], ...] = (
    _no_sync,
    _warmup_included,
    _closed_loop,
    _mean_of_percentiles,
    _mean_alone,
    _one_sample,
    _one_after_the_other,
    _failures_counted,
)


def _p(samples: np.ndarray, q: float) -> float | None:
    """A percentile, None where the samples do not have it."""
    return percentile(samples, q).value


def _in_ms(ns: float | None) -> float | None:
    return None if ns is None else ns / NS_PER_MS
