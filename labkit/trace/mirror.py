"""A recorder's mirror in another process: while a run goes on, what was recorded travels in small parts and is put together here.

The worker takes `parts_of(recorder, ...)` ten times a second; the caller feeds them to a `Mirror`, which can make a trace of
what has happened so far at any time, without asking the worker for anything.
"""

from array import array
from dataclasses import dataclass, field
from typing import Any

from labkit.trace.recorder import Recorder
from labkit.trace.trace import Mark, Trace, UnitSpan


def _none() -> array:
    return array("q")


@dataclass(frozen=True)
class Part:
    """What was recorded since the part before.

    now_ns  the device's clock when it was taken
    rows    tuples of `labkit.trace.recorder.Row`
    marks   knobs that were turned since
    units   the units of lanes so far, all of them
    meta    device label, whether measured, warnings
    requests  the integers of `labkit.trace.recorder.RequestRow`, one request after another
    gauges  what the kernel said of itself at that moment: "waiting", ...
    """

    now_ns: int
    rows: list[tuple[Any, ...]]
    marks: list[Mark]
    units: tuple[UnitSpan, ...]
    meta: dict[str, Any] = field(default_factory=dict)
    requests: array = field(default_factory=_none)
    gauges: dict[str, int] = field(default_factory=dict)


class Parts:
    """Takes a recorder's growth in parts. One reader; the recorder goes on meanwhile."""

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._rows_taken = 0
        self._marks_taken = 0
        self._requests_taken = 0

    def take(self, now_ns: int) -> Part:
        """What was recorded since the last call."""
        recorder = self._recorder
        rows, self._rows_taken = recorder.rows_since(self._rows_taken)
        marks = recorder.marks[self._marks_taken :]
        self._marks_taken += len(marks)
        requests, self._requests_taken = recorder.requests_since(self._requests_taken)
        return Part(now_ns, rows, marks, recorder.spans(now_ns), dict(recorder.meta), requests, dict(recorder.gauges))


class Mirror:
    """The recorder of a run in another process, as far as its parts have arrived.

    cap  rows kept at most; the oldest are dropped first, and counted
    """

    def __init__(self, cap: int = 200_000):
        self._recorder = Recorder(cap)
        self._units: tuple[UnitSpan, ...] = ()
        self.now_ns = 0

    @property
    def marks(self) -> list[Mark]:
        """The knobs that were turned so far."""
        return self._recorder.marks

    @property
    def meta(self) -> dict[str, Any]:
        """Device label, whether measured, warnings."""
        return self._recorder.meta

    def take(self, part: Part) -> None:
        """Add a part. Parts come in order."""
        for row in part.rows:
            self._recorder.append(row)
        self._recorder.answer(part.requests)
        self._recorder.marks += part.marks
        self._recorder.meta = part.meta
        self._units = part.units
        self.now_ns = part.now_ns

    def copy(self) -> "Mirror":
        """What has arrived so far, to be looked at later or elsewhere."""
        twin = Mirror(self._recorder.cap)
        twin._recorder.rows = self._recorder.rows[:]
        twin._recorder.marks = self._recorder.marks[:]
        twin._recorder.meta = self._recorder.meta
        twin._recorder.dropped = self._recorder.dropped
        twin._recorder.dropped_busy_ns = dict(self._recorder.dropped_busy_ns)
        twin._recorder.requests = self._recorder.requests[:]
        twin._recorder.requests_dropped = dict(self._recorder.requests_dropped)
        twin._units, twin.now_ns = self._units, self.now_ns
        return twin

    def trace(self) -> Trace:
        """What has happened so far; rows that end later than now (a simulated device knows them) are left out."""
        finished = self.copy()._recorder
        finished.rows = [row for row in finished.rows if row[10] <= self.now_ns]
        for span in self._units:
            finished.open_unit(span.lane, span.unit, span.open_ns)
            finished.close_unit(span.lane, span.unit, span.close_ns)
        return finished.finish(self.now_ns)
