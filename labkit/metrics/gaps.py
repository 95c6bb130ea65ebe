"""The gaps of every unit, cut into pieces, each with the code of its cause: what `stalls.account` is made of, for a whole trace at once.

A code is a kind of cause and two labels in one number, so that a hundred thousand gaps are a few operations on columns.
"""

from typing import NamedTuple

import numpy as np

from labkit.metrics.cause import DISPATCH, END, START, Cause
from labkit.metrics.chain import Chain
from labkit.metrics.host_timeline import DEADLINE, HostTimeline, deadline_of
from labkit.metrics.labels import NOBODY, Labels, spread_out
from labkit.metrics.unit_slices import HOST, UnitSlices
from labkit.trace import KIND_LAUNCH, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex

_PLAIN = (START, END, DISPATCH)
_START, _END, _DISPATCH, _DEADLINE, _HOST, _DEPENDENCY = range(6)


class Pieces(NamedTuple):
    """Idle pieces as columns: when each began and ended, and the code of its cause."""

    begin: np.ndarray
    end: np.ndarray
    code: np.ndarray


class Gaps:
    """The idle time of every unit of a trace.

    of_unit  for each unit, in the order that was given, its pieces in order of time
    """

    def __init__(self, trace: Trace, units: list[UnitSlices]):
        self._start, self._end, self._submit = trace["start_ns"], trace["end_ns"], trace["submit_ns"]
        self._labels, self._deadline = Labels(trace), deadline_of(trace)
        self._host = HostTimeline(trace, self._labels)
        self._chain = Chain(trace, units, self._host, self._labels)
        self._square = len(self._labels) ** 2
        self._queued, self._dep_end = np.minimum(trace["queued_ns"], self._start), np.minimum(self._chain.dep_end, self._start)
        self._waits = trace["kind"] == KIND_WAIT
        launches = np.flatnonzero(trace["kind"] == KIND_LAUNCH)
        self._launches = launches[np.argsort(self._start[launches], kind="stable")]
        self._launched = self._launch_ends(trace)
        lanes = iter(self._of_lanes([unit for unit in units if unit.span.lane != HOST]))
        self.of_unit = [self._of_host(unit) if unit.span.lane == HOST else next(lanes) for unit in units]

    def cause(self, code: int) -> Cause:
        """The cause that a code stands for."""
        kind, labels = divmod(code, self._square)
        if kind == _DEADLINE:
            return Cause("deadline", "" if self._deadline == DEADLINE else self._deadline)
        if kind < _DEADLINE:
            return _PLAIN[kind]
        one, behind = (self._labels.words(label) for label in divmod(labels, len(self._labels)))
        return Cause("host", *behind) if kind == _HOST else Cause("dependency", *one, *behind)

    # ---- lanes --------------------------------------------------------------------------------------------

    def _of_lanes(self, units: list[UnitSlices]) -> list[Pieces]:
        """The pieces of each unit of these lanes; all gaps are looked at together."""
        if not units:
            return []
        rows, lengths = np.concatenate([unit.rows for unit in units]), [len(unit.rows) for unit in units]
        free = np.concatenate([np.append(unit.span.open_ns, self._end[unit.rows]) for unit in units])
        closing = np.cumsum(lengths) + np.arange(len(units))  # of each unit, the place of what is free after its last row
        last_free, free = free[closing], np.delete(free, closing)
        gaps = np.flatnonzero(self._start[rows] > free)
        begin, end, code = self._before_ops(rows[gaps], free[gaps])
        edges = np.searchsorted(gaps, np.cumsum([0, *lengths]))
        found = []
        for place, unit in enumerate(units):
            one = [column[edges[place] : edges[place + 1]].ravel() for column in (begin, end, code)]
            after = Pieces(last_free[[place]], np.array([unit.span.close_ns]), np.array([self._plain(_END)]))
            found.append(_some(Pieces(*map(np.append, one, after))))
        return found

    def _before_ops(self, rows: np.ndarray, free: np.ndarray) -> Pieces:
        """Three pieces before each of these rows, some of no length: until it was ready, until it was launched, until it began."""
        start, queued, dep_end = self._start[rows], self._queued[rows], self._dep_end[rows]
        ready = np.maximum(np.maximum(queued, dep_end), free)
        launched = np.maximum(np.minimum(self._launched[rows], start), ready)
        edges = np.stack([free, ready, launched, start], 1)
        code = np.full((len(rows), 3), self._plain(_DISPATCH))
        on_dep, on_host, late = (ready > free) & (dep_end > queued), (ready > free) & (dep_end <= queued), launched > ready
        code[on_dep, 0] = self._on_dep(free[on_dep], ready[on_dep], rows[on_dep])
        code[on_host, 0] = self._on_host(free[on_host], ready[on_host])
        code[late, 1] = self._on_host(ready[late], launched[late])
        return Pieces(edges[:, :-1], edges[:, 1:], code)

    def _on_host(self, since_ns: np.ndarray, until_ns: np.ndarray) -> np.ndarray:
        doing = self._host.mostly(since_ns, until_ns)
        return np.where(doing == NOBODY, self._plain(_START), _HOST * self._square + doing)

    def _on_dep(self, since_ns: np.ndarray, until_ns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        deps = self._chain.dep_row[rows]
        last, behind = self._labels.of_row[deps], self._chain.longest_behind(since_ns, until_ns, deps)
        return self._dependency(last, np.where(behind == NOBODY, last, behind))

    def _dependency(self, last: np.ndarray, behind: np.ndarray) -> np.ndarray:
        return _DEPENDENCY * self._square + last * len(self._labels) + behind

    def _plain(self, kind: int) -> int:
        return kind * self._square

    # ---- the host -----------------------------------------------------------------------------------------

    def _of_host(self, unit: UnitSlices) -> Pieces:
        opened, closed, first, last = unit.span.open_ns, unit.span.close_ns, self._host.first_ns, self._host.last_ns
        if first is None or last is None:
            return _some(Pieces(np.array([opened]), np.array([closed]), np.array([self._plain(_END)])))
        rows, waits = unit.rows, self._waits[unit.rows]
        begin = np.where(waits, self._start[rows], np.maximum(np.append(opened, self._end[rows])[:-1], self._submit[rows]))
        end = np.where(waits, self._end[rows], self._dep_end[rows])
        code, awaited = np.zeros(len(rows), np.int64), self._host.of_row[rows[waits]]
        code[waits] = np.where(awaited == self._host.deadline, self._plain(_DEADLINE), self._dependency(awaited, awaited))
        held = ~waits & (end > begin)
        code[held] = self._on_dep(begin[held], end[held], rows[held])
        ends = [min(first, closed)], [closed]
        return self._without_launches(
            _some(
                Pieces(
                    np.concatenate([[opened], begin, [max(last, opened)]]), np.concatenate([ends[0], end, ends[1]]),
                    np.concatenate([[self._plain(_START)], code, [self._plain(_END)]]),
                )
            )
        )  # fmt: skip

    def _without_launches(self, pieces: Pieces) -> Pieces:
        """The host's idle pieces less the launches that it made amid them. Both are in order of time."""
        if not len(self._launches):
            return pieces
        begun, over = self._start[self._launches], self._end[self._launches]
        first = np.searchsorted(over, pieces.begin, "right")
        counts = np.maximum(np.searchsorted(begun, pieces.end, "left") - first, 0)
        whose, place = spread_out(counts + 1)
        launch = first[whose] + place
        begin = np.where(place == 0, pieces.begin[whose], over[np.maximum(launch - 1, 0)])
        end = np.where(place == counts[whose], pieces.end[whose], begun[np.minimum(launch, len(begun) - 1)])
        return _some(Pieces(begin, end, pieces.code[whose]))

    def _launch_ends(self, trace: Trace) -> np.ndarray:
        """For each row, when the host was done launching it late; 0 for the others."""
        found = np.zeros(len(trace), np.int64)
        counts = np.diff(trace.dep_offsets)[self._launches]
        whose, place = spread_out(counts)
        deps = RowIndex(trace).rows(trace.dep_ids[trace.dep_offsets[self._launches][whose] + place])
        found[deps[deps >= 0]] = self._end[self._launches][whose[deps >= 0]]
        return found


def _some(pieces: Pieces) -> Pieces:
    """Those that have a length."""
    some = pieces.end > pieces.begin
    return Pieces(*(column[some] for column in pieces))
