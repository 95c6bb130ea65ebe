"""The verdict: how far a result may be trusted, and why, in words.

INVALID is no result. WEAK is one that must not be relied on alone. VALID has nothing against it that labkit
can see. PREDICTED was simulated: there is no measurement to judge.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from labkit.metrics.circumstances import UNKNOWN, Circumstances
from labkit.metrics.latency import step_intervals_ns
from labkit.metrics.load import (
    CLOSED,
    IDLE,
    OPEN,
    backlog_of_warmup,
    capacity,
    idle,
    is_open_loop,
    requests_late,
)
from labkit.metrics.overlap import role_of
from labkit.metrics.spread import spread
from labkit.metrics.summary import Summary
from labkit.metrics.unit_slices import HOST
from labkit.metrics.window import Window, completions, steady_window
from labkit.schedule import Status
from labkit.trace import Trace
from labkit.units import format_percent

Grade = Literal["VALID", "WEAK", "INVALID", "PREDICTED"]

WORST_FIRST: tuple[Grade, ...] = ("INVALID", "WEAK", "PREDICTED", "VALID")

COMPLETIONS_WANTED = 20
SPREAD_ALLOWED = 0.5

SIMULATED = "simulated: a prediction, not a measurement"
DRAINED = "the device was drained: every op had ended when the clock was read"


@dataclass(frozen=True)
class Verdict:
    """How far a result may be trusted, and why.

    reasons  what speaks against it
    facts    what speaks neither for nor against it, and should be known; not part of what makes two verdicts equal
    """

    grade: Grade
    reasons: tuple[str, ...]
    facts: tuple[str, ...] = field(default=(), compare=False)


def judge(
    summary: Summary | None,
    trace: Trace,
    *,
    status: str = "ok",
    measured: bool = True,
    warmup_steps: int = 0,
    drained: bool = True,
    circumstances: Circumstances = UNKNOWN,
) -> Verdict:
    """The verdict on one run.

    summary        what `summarize` made of the trace; None where it could not
    status         how the run ended: ok, failed, cancelled
    measured       False for a prediction
    drained        whether every op had ended before the clock was read
    circumstances  what went on around the run; a prediction has none
    """
    window = steady_window(trace, warmup_steps)
    against = _against(summary, trace, window, status, drained)
    doubts = tuple(_doubts(summary, trace, window, warmup_steps))
    simulated = () if measured else (SIMULATED,)
    if measured:
        doubts += tuple(_doubts_of_measuring(summary, trace, window, warmup_steps, circumstances))
    facts = tuple(_facts(summary, trace, window, warmup_steps, drained)) + (circumstances.facts() if measured else ())
    if against:
        return Verdict("INVALID", (*against, *doubts, *simulated), facts)
    if not measured:
        return Verdict("PREDICTED", (*doubts, *simulated), facts)
    return Verdict("WEAK" if doubts else "VALID", doubts, facts)


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
    if window.steady and summary is not None and summary.requests is not None and summary.requests.offered.value is None:
        reasons.append(f"nothing can be said of the requests: {summary.requests.offered.reason}")
    if pending or not drained:
        left = _count(pending, "op") if pending else "ops"
        reasons.append(f"the device was not drained: {left} had not ended when the clock was read")
    return tuple(reasons)


def _doubts(summary: Summary | None, trace: Trace, window: Window, warmup_steps: int) -> Iterator[str]:
    """What makes it weak, measured or simulated."""
    if warmup_steps < 1:
        yield "no warm-up was excluded"
    n = len(window.rows)
    if window.steady and n < COMPLETIONS_WANTED:
        yield f"only {_count(n, 'completion')} counted; {COMPLETIONS_WANTED} are wanted"
    if trace.dropped:
        yield f"the trace was full: {_count(trace.dropped, 'row')} dropped"
    if lost := sum(trace.requests_dropped.values()):
        yield f"the trace was full: {_count(lost, 'request')} dropped, of {_count(lost + len(trace.requests['request']), 'request')}"
    if (backlog := backlog_of_warmup(trace, window, warmup_steps)) is not None:
        yield backlog
    open_loop = is_open_loop(trace)
    apart = 0.0 if open_loop else spread(step_intervals_ns(trace, window), _in_flight(summary))  # arrivals are meant to spread
    if apart > SPREAD_ALLOWED:
        how = f"interquartile range; up to {format_percent(SPREAD_ALLOWED)} is let pass"
        yield f"step intervals spread by {format_percent(apart)} of their median ({how})"
    yield from (str(warning) for warning in trace.meta.get("warnings", []))
    turned = sorted({mark.knob for mark in trace.marks if window.start_ns <= mark.time_ns <= window.end_ns})
    if turned:
        yield f"{', '.join(turned)} turned inside the window"
    if window.steady and summary is not None and not open_loop and (little := idle(summary)):
        yield f"{little}; the load generator was the limit, {format_percent(IDLE)} is wanted"


def _doubts_of_measuring(
    summary: Summary | None, trace: Trace, window: Window, warmup_steps: int, circumstances: Circumstances
) -> Iterator[str]:
    """What makes a measurement weak that a simulation cannot suffer from."""
    if (late := requests_late(trace, window, warmup_steps)) is not None:
        yield late
    yield from circumstances.doubts()
    workers = _units(summary, "workers")
    told = any(str(warning).startswith("more busy threads than cores") for warning in trace.meta.get("warnings", []))
    if circumstances.cores is not None and workers > circumstances.cores and not told:
        yield f"more threads than cores: {workers} workers on {_count(circumstances.cores, 'core')}; they slow each other down"


def _facts(summary: Summary | None, trace: Trace, window: Window, warmup_steps: int, drained: bool) -> Iterator[str]:
    """What speaks neither for nor against it."""
    if drained and not (trace["status"] == Status.PENDING).any():
        yield DRAINED
    if window.steady:
        excluded = f"; {_count(warmup_steps, 'warm-up step')} excluded" if warmup_steps else ""
        yield f"{_count(len(window.rows), 'completion')} counted{excluded}"
    open_loop = is_open_loop(trace)
    yield OPEN if open_loop else CLOSED
    if summary is not None and summary.requests is not None and summary.requests.fairness is not None:
        yield from summary.requests.fairness.starved
    if summary is None or not window.steady:
        return
    if (limit := capacity(summary)) is not None:
        yield limit
    elif open_loop and (little := idle(summary)) is not None:
        yield f"below capacity: {little}; the throughput is that of the arrivals"


def _in_flight(summary: Summary | None) -> int:
    """The most units that a lane had in the window: so many steps may complete close together."""
    return 1 if summary is None else max((metric.n for lane, metric in summary.utilization.items() if lane != HOST), default=1)


def _units(summary: Summary | None, role: str) -> int:
    """Units of a role's lanes in the window."""
    return 0 if summary is None else sum(metric.n for lane, metric in summary.utilization.items() if role_of(lane) == role)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
