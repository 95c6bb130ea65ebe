"""The waterfall: from the ideal run to the measured one, every nanosecond between them charged to what it was lost to.

If everything overlapped perfectly, the busiest lane would never idle and the run would take that lane's busy time: the ideal. What is
longer is that lane's idle time, and `stalls.account` says of every idle nanosecond what it waited for. So the parts add up to the
measured time exactly, in whole nanoseconds: wall time × units of the lane.
"""

from dataclasses import dataclass

from labkit.metrics.bound import busiest_lane
from labkit.metrics.stalls import LaneAccount, account, waits_ns
from labkit.metrics.utilization import utilization
from labkit.metrics.window import Window, steady_window
from labkit.trace import Trace

SMALL = 0.01
FEW = "several things, each under 1 %"


@dataclass(frozen=True)
class Loss:
    """Idle time of the busiest lane, and what it was lost to."""

    words: str
    ns: int


@dataclass(frozen=True)
class Waterfall:
    """From the ideal to the measured time of the steady window.

    lane       the busiest lane, whose busy time is the ideal
    units      its units; every time below is summed over them
    ideal_ns   its busy time
    losses     its idle time by cause, the largest first; causes of less than 1 % together, as the last
    total_ns   ideal and losses: the measured time, exactly
    wall_ns    length of the window
    steps      completions in it
    """

    lane: str
    units: int
    ideal_ns: int
    losses: tuple[Loss, ...]
    total_ns: int
    wall_ns: int
    steps: int

    @property
    def words(self) -> str:
        """`1.00 ideal (compute busy) + 0.08 waiting for workers: decode + 0.01 dispatch = 1.09 measured`."""
        parts = [f"1.00 ideal ({self.lane} busy)", *(f"{self.relative(loss.ns):.2f} {loss.words}" for loss in self.losses)]
        return f"{' + '.join(parts)} = {self.relative(self.total_ns):.2f} measured"

    def relative(self, ns: int) -> float:
        """A time in units of the ideal."""
        return ns / self.ideal_ns

    def per_step_ms(self, ns: int) -> float:
        """A time as milliseconds of a step's wall time."""
        return ns / self.total_ns * self.wall_ns / max(self.steps, 1) / 1e6


def waterfall(trace: Trace, warmup_steps: int = 0) -> Waterfall | None:
    """The waterfall of a run's steady window; None where no lane but the host was busy in it. TraceError for a malformed trace."""
    window = steady_window(trace, warmup_steps)
    return waterfall_of(account(trace), window)


def waterfall_of(accounts: tuple[LaneAccount, ...], window: Window) -> Waterfall | None:
    """The same from accounts that the caller has."""
    span = (window.start_ns, window.end_ns)
    lane = busiest_lane(utilization(accounts, *span))
    if lane is None:
        return None
    units = [unit for unit in accounts if unit.lane == lane and unit.span_within(*span)]
    total_ns = sum(unit.span_within(*span) for unit in units)
    idle = waits_ns(tuple(units), *span)[lane]
    by_words: dict[str, int] = {}
    for cause, ns in idle.items():
        by_words[cause.text] = by_words.get(cause.text, 0) + ns
    losses = [Loss(words, ns) for words, ns in sorted(by_words.items(), key=lambda pair: (-pair[1], pair[0])) if ns]
    large = [loss for loss in losses if loss.ns >= SMALL * total_ns]
    few_ns = sum(loss.ns for loss in losses) - sum(loss.ns for loss in large)
    shown = (*large, Loss(FEW, few_ns)) if len(losses) - len(large) > 1 else tuple(losses)
    ideal_ns = total_ns - sum(loss.ns for loss in losses)
    return Waterfall(lane, len(units), ideal_ns, shown, total_ns, window.wall_ns, len(window.rows))
