"""Watching one run: its frames become what the strip draws and, when a segment has settled, a run part to show.

Lives in the session's thread, one for each run. The trace of what has happened so far is only copied here; it is summarised by
whoever draws it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from labkit.errors import LabkitError
from labkit.figures.shown import Shown
from labkit.metrics.summary import summarize
from labkit.monitor.strip import Dial
from labkit.panel.frame import StripFrame
from labkit.panel.pulse import Pulse
from labkit.panel.segments import Segment
from labkit.panel.setting import Setting
from labkit.runner.job import Frame, Job, Live
from labkit.trace import Trace
from labkit.trace.mirror import Mirror
from labkit.units import ABSENT, NS_PER_S, format_percent

FIRST_LOOK_S = 4.0


@dataclass(frozen=True)
class PartOfRun:
    """What was seen of a run since its last toggle: the setting of that part, and the trace so far.

    first_step  the first step that counts
    """

    setting: Setting
    mirror: Mirror | None
    trace: Trace | None
    first_step: int

    def shown(self, label: str) -> Shown | None:
        """This part as figures take it; None where too little has happened."""
        trace = self.trace if self.trace is not None else self.mirror.trace() if self.mirror is not None else None
        if trace is None or not len(trace):
            return None
        try:
            summary = summarize(trace, warmup_steps=self.first_step)
        except LabkitError:
            return None
        if summary.throughput.value is None:
            return None
        return Shown(label, self.setting.label, not self.setting.simulated, summary, trace)


class Watch:
    """One run while it is watched.

    setting  what it runs with now, as far as its frames say
    clock    seconds since the strip began, now
    """

    def __init__(self, job: Job, setting: Setting, clock: Callable[[], float]):
        self.setting = setting
        self._job = job
        self._clock = clock
        self._mirror = Mirror()
        self._pulse: Pulse | None = None
        self._before_ns = 0
        self._look_at_s = 0.0
        self._wait_s = FIRST_LOOK_S
        self._segment_seen: Segment | None = None
        self._in_flight = _in_flight(setting)

    def take(self, frame: Frame) -> StripFrame | None:
        """What the strip draws for a frame; None for one that carries nothing, or that a newer one has overtaken."""
        live = frame.live
        if live is None:
            return None
        part = live.part
        if self._pulse is None:
            self._pulse = Pulse(self._clock() - part.now_ns / NS_PER_S, self._job.budget.warmup)
        if part.marks:
            self._turned(self.setting.turned({mark.knob: mark.new for mark in part.marks}))
        self._mirror.take(part)
        self._pulse.take(part, self._in_flight)
        if frame.late:
            return None
        drawn = self._pulse.frame(part.now_ns, self._before_ns, self.setting.honest_label, self.setting.simulated)
        self._before_ns = part.now_ns
        return drawn

    def _turned(self, setting: Setting) -> None:
        """The run goes on with these settings: its mark says so, not whoever asked for them."""
        self._in_flight = max(_in_flight(self.setting), _in_flight(setting))
        self.setting = setting

    def last_frame(self, drawn: StripFrame | None) -> StripFrame | None:
        """The frame that says that the run has ended."""
        return None if drawn is None else replace(drawn, points=drawn.points[:0], running=False)

    def settled(self) -> PartOfRun | None:
        """The part since the last toggle, when it is time to look at it: settled, and at growing intervals after that."""
        if self._pulse is None or not self._pulse.segments.now.settled:
            return None
        segment = self._pulse.segments.now
        if segment is not self._segment_seen:
            self._segment_seen, self._wait_s = segment, FIRST_LOOK_S
        elif monotonic() < self._look_at_s:
            return None
        self._look_at_s, self._wait_s = monotonic() + self._wait_s, 2 * self._wait_s
        return self.part()

    def part(self) -> PartOfRun:
        """The part since the last toggle, as far as it has come."""
        return PartOfRun(self.setting, self._mirror.copy(), None, self.first_step)

    @property
    def first_step(self) -> int:
        """The first step of the part since the last toggle."""
        return self._pulse.segments.now.first_step if self._pulse is not None else self._job.budget.warmup

    @property
    def counted(self) -> bool:
        """Whether any step has been completed that counts."""
        return self._pulse is not None and any(segment.steps for segment in self._pulse.segments.all)

    @property
    def toggled(self) -> bool:
        """Whether a knob was turned while it ran."""
        return self._pulse is not None and len(self._pulse.segments.all) > 1


def watching_dial(live: Live) -> Dial:
    """What watching costs the worker: CPU time of the thread that makes its frames ÷ time of the run, to a tenth of a per cent."""
    name, label, unit = "watching_cpu_share", "cost of watching", "share of one core"
    if live.part.now_ns <= 0:
        return Dial(name, label, ABSENT, None, unit, "the run has just begun")
    share = round(live.watching_s / (live.part.now_ns / NS_PER_S), 3)
    return Dial(name, label, format_percent(share), share, unit)


def _in_flight(setting: Setting) -> int:
    """Steps that may be on their way at a toggle: those loading and two training, or the batches that are being served."""
    knobs = setting.knobs
    return int(getattr(knobs, "in_flight", getattr(knobs, "prefetch", 0) + 3))
