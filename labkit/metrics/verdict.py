"""The verdict: how far a result may be trusted, and why, in words.

INVALID is no result. WEAK is one that must not be relied on alone. VALID has nothing against it that labkit
can see. PREDICTED was simulated: there is no measurement to judge.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from labkit.metrics.latency import step_intervals_ns
from labkit.metrics.percentiles import quantile
from labkit.metrics.summary import Summary
from labkit.metrics.window import Window, completions, steady_window
from labkit.schedule import Status
from labkit.trace import Trace
from labkit.units import format_percent

Grade = Literal["VALID", "WEAK", "INVALID", "PREDICTED"]

WORST_FIRST: tuple[Grade, ...] = ("INVALID", "WEAK", "PREDICTED", "VALID")

COMPLETIONS_WANTED = 20
SPREAD_ALLOWED = 0.5

SIMULATED = "simulated: a prediction, not a measurement"


@dataclass(frozen=True)
class Verdict:
    """How far a result may be trusted, and why."""

    grade: Grade
    reasons: tuple[str, ...]


def judge(
    summary: Summary | None,
    trace: Trace,
    *,
    status: str = "ok",
    measured: bool = True,
    warmup_steps: int = 0,
    drained: bool = True,
) -> Verdict:
    """The verdict on one run.

    summary   what `summarize` made of the trace; None where it could not
    status    how the run ended: ok, failed, cancelled
    measured  False for a prediction
    drained   whether every op had ended before the clock was read
    """
    window = steady_window(trace, warmup_steps)
    against = _against(summary, trace, window, status, drained)
    doubts = _doubts(trace, window, warmup_steps)
    simulated = () if measured else (SIMULATED,)
    if against:
        return Verdict("INVALID", (*against, *doubts, *simulated))
    if not measured:
        return Verdict("PREDICTED", (*doubts, *simulated))
    return Verdict("WEAK" if doubts else "VALID", doubts)


def _against(
    summary: Summary | None, trace: Trace, window: Window, status: str, drained: bool
) -> tuple[str, ...]:
    """What makes it no result."""
    reasons = []
    if status != "ok":
        reasons.append(f"the run {'was cancelled' if status == 'cancelled' else f'ended as {status}'}")
    if summary is None:
        reasons.append("the trace could not be summarised")
    if not window.steady:
        reasons.append(
            "nothing completed after the warm-up" if len(completions(trace)) else "nothing completed"
        )
    failed, pending = (int((trace["status"] == status).sum()) for status in (Status.FAILED, Status.PENDING))
    if failed:
        reasons.append(f"{_count(failed, 'op')} failed")
    if pending or not drained:
        left = _count(pending, "op") if pending else "ops"
        reasons.append(f"the device was not drained: {left} had not ended when the clock was read")
    return tuple(reasons)


def _doubts(trace: Trace, window: Window, warmup_steps: int) -> tuple[str, ...]:
    """What makes it weak."""
    doubts = []
    if warmup_steps < 1:
        doubts.append("no warm-up was excluded")
    n = len(window.rows)
    if window.steady and n < COMPLETIONS_WANTED:
        doubts.append(f"only {_count(n, 'completion')} counted; {COMPLETIONS_WANTED} are wanted")
    if trace.dropped:
        doubts.append(f"the trace was full: {_count(trace.dropped, 'row')} dropped")
    spread = _spread(step_intervals_ns(trace, window))
    if spread > SPREAD_ALLOWED:
        doubts.append(
            f"step intervals spread by {format_percent(spread)} of their median (interquartile range)"
        )
    doubts += [str(warning) for warning in trace.meta.get("warnings", [])]
    turned = sorted({mark.knob for mark in trace.marks if window.start_ns <= mark.time_ns <= window.end_ns})
    if turned:
        doubts.append(f"{', '.join(turned)} turned inside the window")
    return tuple(doubts)


def _spread(intervals: np.ndarray) -> float:
    """Interquartile range over median; 0 where there is none."""
    if len(intervals) < 2:
        return 0.0
    ordered = np.sort(intervals)
    median = quantile(ordered, 0.5)
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / median if median > 0 else 0.0


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
