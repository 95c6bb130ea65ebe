"""The critical path: the chain of ops, host work and waits that ends with the last completion, and covers all of the time before it.

It is walked backwards. What an op could not start without, and what came last of these, is what came before it on the path: an op that it
depends on, the op before it on its unit, or the host that submitted it. A host that was waiting hands on to the op that woke it. Making an
op off the path faster gains nothing; one on it, at most its share (Kelley and Walker, "Critical-Path Planning and Scheduling", 1959).
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labkit.errors import TraceError
from labkit.metrics.host_timeline import deadline_of, program_of
from labkit.metrics.unit_slices import HOST, slices_by_unit
from labkit.metrics.window import steady_window
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex

Sort = Literal["op", "host", "dispatch", "wake-up", "deadline", "start"]


@dataclass(frozen=True)
class Piece:
    """A piece of the path.

    sort  op: an op ran; host: the kernel's own program, launches included; dispatch: from ready to running; wake-up: from the end of an
          op to the host running again; deadline: the host waited for a set time; start: before anything that the trace knows
    name  of the op, or words
    row   of the trace, -1 where it is none
    """

    start_ns: int
    end_ns: int
    sort: Sort
    name: str
    lane: str
    row: int = -1

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class CriticalPath:
    """Pieces in order of time, end to end: together they are the time from `start_ns` to `end_ns` exactly."""

    start_ns: int
    end_ns: int
    pieces: tuple[Piece, ...]

    @property
    def op_ns(self) -> int:
        """The time of it on which ops ran: never more than the wall time."""
        return sum(piece.ns for piece in self.pieces if piece.sort == "op")

    def shares(self) -> dict[str, float]:
        """`compute: forward`, `dispatch`, `host program`, … → share of the path, the largest first."""
        whole = self.end_ns - self.start_ns
        by_name: dict[str, int] = {}
        for piece in self.pieces:
            name = f"{piece.lane}: {piece.name}" if piece.sort == "op" else piece.name
            by_name[name] = by_name.get(name, 0) + piece.ns
        return {name: ns / whole for name, ns in sorted(by_name.items(), key=lambda pair: (-pair[1], pair[0])) if ns}


def critical_path(trace: Trace, warmup_steps: int = 0) -> CriticalPath:
    """The critical path of a run's steady window, up to its last completion; of the whole run where nothing completed.

    Raises TraceError for a malformed trace.
    """
    window = steady_window(trace, warmup_steps)
    if window.steady:
        last = int(window.rows[-1])
    else:
        ran = np.flatnonzero((trace["end_ns"] >= 0) & (trace["kind"] == KIND_OP))
        if not len(ran):
            return CriticalPath(window.start_ns, window.start_ns, ())
        last = int(ran[np.argmax(trace["end_ns"][ran])])
    end_ns = int(trace["end_ns"][last])
    pieces = []
    for piece in _Walk(trace).back_from(last):
        if piece.end_ns <= window.start_ns:
            break
        start_ns = max(piece.start_ns, window.start_ns)
        if piece.end_ns > start_ns:
            pieces.append(Piece(start_ns, piece.end_ns, piece.sort, piece.name, piece.lane, piece.row))
    reached = pieces[-1].start_ns if pieces else end_ns
    if reached > window.start_ns:
        pieces.append(Piece(window.start_ns, reached, "start", "before the first op", ""))
    return CriticalPath(window.start_ns, end_ns, tuple(reversed(pieces)))


class _Walk:
    """The columns of a trace as lists, and where each row's path came from."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.program = program_of(trace)
        self.start, self.end = trace["start_ns"].tolist(), trace["end_ns"].tolist()
        self.queued = np.maximum(trace["queued_ns"], trace["submit_ns"]).tolist()
        self.lane = [trace.lanes[code] for code in trace["lane"].tolist()]
        index = RowIndex(trace)
        self.deps = index.rows(trace.dep_ids).tolist()
        self.offsets = trace.dep_offsets.tolist()
        self.woke_by = index.rows(trace["woke_by"]).tolist()
        self.woken = trace["woke_by"].tolist()
        self.waits = (trace["kind"] == KIND_WAIT).tolist()
        self.before: dict[int, int] = {}
        self.host_rows: list[int] = []
        for unit in slices_by_unit(trace):
            rows = unit.rows.tolist()
            self.before |= dict(zip(rows[1:], rows[:-1], strict=True))
            if unit.span.lane == HOST:
                self.host_rows = rows
        self.host_place = {row: place for place, row in enumerate(self.host_rows)}
        self.host_ends = [self.end[row] for row in self.host_rows]
        for row in np.flatnonzero(trace["kind"] == KIND_LAUNCH).tolist():
            for dep in index.rows(trace.deps(row)).tolist():
                if dep >= 0:
                    self.queued[dep] = max(self.queued[dep], self.end[row])

    def back_from(self, row: int) -> Iterator[Piece]:
        """The pieces from the end of an op back to the begin of the trace."""
        most = 4 * len(self.trace) + 16
        at: tuple[str, int, int] | None = ("op", row, self.end[row])
        while at is not None:
            most -= 1
            if most < 0:
                raise TraceError("the critical path goes in a circle: the trace's dependencies do")
            what, row, time_ns = at
            if what == "op":
                name = self.trace.name_of(row)
                begun = min(self.start[row], time_ns)
                yield Piece(begun, time_ns, "op", name, self.lane[row], row)
                at = yield from self._before_op(row, begun)
            else:
                at = yield from self._before_host(time_ns, row)

    def _before_op(self, row: int, begun: int) -> Iterator[Piece]:
        """What came last of all that the op needed; the gap between is dispatch."""
        host = self.lane[row] == HOST
        needs = [(self.end[dep], dep) for dep in self.deps[self.offsets[row] : self.offsets[row + 1]] if dep >= 0 and self.end[dep] >= 0]
        if not host and row in self.before:
            needs.append((self.end[self.before[row]], self.before[row]))
        ready, dep = max(needs, default=(-1, -1))
        called = begun if host else self.queued[row]
        if dep < 0 or min(called, begun) >= min(ready, begun):
            called = min(called, begun)
            yield Piece(called, begun, "dispatch", "dispatch", self.lane[row])
            return "host", row if host else -1, called
        ready = min(ready, begun)
        yield Piece(ready, begun, "dispatch", "dispatch", self.lane[row])
        return "op", dep, ready

    def _before_host(self, time_ns: int, row: int) -> Iterator[Piece]:
        """What the host did before an instant: its own program back to the last wait or inline op, and what ended that."""
        place = self.host_place[row] - 1 if row in self.host_place else bisect_right(self.host_ends, time_ns) - 1
        while place >= 0 and self.waits[self.host_rows[place]] and self._was_over(self.host_rows[place]):
            place -= 1
        if place < 0:
            first = self.trace["submit_ns"].min() if len(self.trace) else time_ns
            yield Piece(min(int(first), time_ns), time_ns, "host", self.program, HOST)
            return None
        last = self.host_rows[place]
        left = min(self.end[last], time_ns)
        yield Piece(left, time_ns, "host", self.program, HOST)
        if not self.waits[last]:
            return "op", last, left
        if self.woken[last] < 0 or self.woke_by[last] < 0:
            name = deadline_of(self.trace) if self.woken[last] < 0 else "an op that was not kept"
            yield Piece(self.start[last], left, "deadline", f"waiting for {name}", HOST, last)
            return "host", last, self.start[last]
        waker = self.woke_by[last]
        ended = min(self.end[waker], left)
        yield Piece(ended, left, "wake-up", "wake-up", HOST)
        return "op", waker, ended

    def _was_over(self, row: int) -> bool:
        """Whether what a wait waited for had ended before it began: the host only looked, and went on."""
        waker = self.woke_by[row]
        return self.woken[row] >= 0 and waker >= 0 and self.end[waker] <= self.start[row]
