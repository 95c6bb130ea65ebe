"""The part of a run that a timeline shows, and how its instants become places on an axis."""

from dataclasses import dataclass

import numpy as np

from labkit.figures.numbers import TimeUnit
from labkit.figures.shown import Shown
from labkit.metrics.window import completions

STEPS_IN_VIEW = 10


@dataclass(frozen=True)
class View:
    """From when to when, which instant is called 0, and in which unit the axis counts."""

    first_ns: int
    last_ns: int
    origin_ns: int
    unit: TimeUnit

    @property
    def span_ns(self) -> int:
        """Its length."""
        return self.last_ns - self.first_ns

    @property
    def range(self) -> list[float]:
        """The ends of the axis."""
        return [(end_ns - self.origin_ns) / self.unit.ns for end_ns in (self.first_ns, self.last_ns)]

    def x(self, time_ns: np.ndarray) -> np.ndarray:
        """Instants on the axis."""
        return (time_ns - self.origin_ns) / self.unit.ns

    def length(self, duration_ns: np.ndarray) -> np.ndarray:
        """Durations on the axis."""
        return duration_ns / self.unit.ns


def default_view(shown: Shown) -> tuple[int, int]:
    """From when to when ten steps in the middle of the steady window were completed; else the window, else all there is."""
    if shown.trace is None:
        return 0, 1
    first_ns, last_ns = shown.summary.window_ns
    ends_ns = shown.trace["end_ns"][completions(shown.trace)]
    ends_ns = ends_ns[(ends_ns >= first_ns) & (ends_ns <= last_ns)]
    if len(ends_ns) > STEPS_IN_VIEW:
        first = (len(ends_ns) - 1 - STEPS_IN_VIEW) // 2
        return int(ends_ns[first]), int(ends_ns[first + STEPS_IN_VIEW])
    if last_ns > first_ns:
        return first_ns, last_ns
    return shown.trace.start_ns, max(shown.trace.end_ns, shown.trace.start_ns + 1)
