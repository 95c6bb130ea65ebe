"""The recorder: what devices write while a run goes on. One tuple a row, appended; columns are made at the end.

Bounded: past the cap the oldest rows are folded into per-lane sums and counted. Recording costs about a
microsecond an op, and `append` may be called from any thread.
"""

from array import array
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from labkit.errors import TraceError
from labkit.trace.trace import INT_COLUMNS, REQUEST_COLUMNS, Mark, Trace, UnitSpan


class Row(NamedTuple):
    """One row as it is recorded. See `Trace` for the meaning of each column."""

    op: int
    kind: int
    name: str
    lane: str
    unit: int
    step: int
    items: int
    submit_ns: int
    queued_ns: int
    start_ns: int
    end_ns: int
    flop: int
    bytes: int
    woke_by: int
    status: int
    deps: tuple[int, ...]


_ACROSS = len(REQUEST_COLUMNS)
_ANSWER = REQUEST_COLUMNS.index("answer")


class RequestRow(NamedTuple):
    """One request as it is recorded. See `Trace.requests` for the meaning of each column."""

    request: int
    tenant: int
    due_ns: int
    admitted_ns: int
    first_ns: int
    done_ns: int
    answer: int
    step: int
    length: int
    slo_ns: int
    first_token_ns: int = -1
    tokens: int = 0


class Recorder:
    """Collects the rows, requests, marks and lane units of one run.

    cap  rows kept at most, and requests (a quarter more while recording); the oldest are dropped first, counted, and summed by
         lane or by answer
    """

    def __init__(self, cap: int = 1_000_000):
        if cap < 1:
            raise TraceError(f"trace cap {cap} is not allowed: at least 1 row must be kept")
        self.cap = cap
        self.rows: list[tuple[Any, ...]] = []
        self.marks: list[Mark] = []
        self.meta: dict[str, Any] = {}
        self.dropped = 0
        self.dropped_busy_ns: dict[str, int] = {}
        self.requests = array("q")
        self.requests_dropped: dict[int, int] = {}
        self.gauges: dict[str, int] = {}
        """What a kernel says of itself at the moment, for whoever watches; not part of the trace."""
        self._spans: list[UnitSpan] = []
        self._open: dict[tuple[str, int], int] = {}
        self._full = cap + max(cap // 4, 16)
        self._lock = Lock()

    def append(self, row: tuple[Any, ...]) -> None:
        """Record one row; safe from any thread."""
        self.rows.append(row)
        if len(self.rows) >= self._full:
            self._drop_oldest()

    def answer(self, row: Sequence[int]) -> None:
        """Record what became of a request: a `RequestRow`, or a plain tuple of the same. The host's thread only.

        Kept as integers, a hundred bytes a request: a run may serve millions.
        """
        self.requests.extend(row)
        if len(self.requests) >= self._full * _ACROSS:
            self._drop_oldest_requests()

    def mark(self, time_ns: int, step: int, knob: str, old: Any, new: Any) -> None:
        """Record that a knob was turned."""
        self.marks.append(Mark(time_ns, step, knob, old, new))

    def open_unit(self, lane: str, unit: int, time_ns: int) -> None:
        """A unit of a lane exists from now on."""
        self._open[lane, unit] = time_ns

    def close_unit(self, lane: str, unit: int, time_ns: int) -> None:
        """A unit of a lane is gone from now on."""
        opened = self._open.pop((lane, unit), None)
        if opened is not None:
            self._spans.append(UnitSpan(lane, unit, opened, time_ns))

    def rows_since(self, mark: int) -> tuple[list[tuple[Any, ...]], int]:
        """The rows recorded since a position that an earlier call returned (0: all kept), and the new position."""
        with self._lock:
            first = max(mark - self.dropped, 0)
            rows = self.rows[first:]  # another thread may append meanwhile: the position comes from what was taken
            return rows, self.dropped + first + len(rows)

    def requests_since(self, mark: int) -> tuple[array, int]:
        """As `rows_since`, of the requests: their integers, one request after another."""
        with self._lock:
            dropped = sum(self.requests_dropped.values())
            first = max(mark - dropped, 0)
            whole = len(self.requests) // _ACROSS  # the host may be in the middle of one
            return self.requests[first * _ACROSS : whole * _ACROSS], dropped + max(whole, first)

    def spans(self, now_ns: int) -> tuple[UnitSpan, ...]:
        """The units of lanes so far; those still open are taken to end at `now_ns`. Safe from any thread."""
        still_open = [UnitSpan(lane, unit, since, now_ns) for (lane, unit), since in list(self._open.items())]
        return (*self._spans, *still_open)

    def finish(self, end_ns: int) -> Trace:
        """The trace so far; units still open are taken to end at `end_ns`."""
        self._drop_oldest()
        self._drop_oldest_requests()
        with self._lock:
            rows = sorted(self.rows)
        spans = [span for span in self.spans(end_ns) if span.close_ns >= span.open_ns]  # not: for a time that never came
        if self.dropped:
            spans = _clipped(spans, min((row[7] for row in rows), default=0))
        return _trace_of(rows, spans, self)

    def _drop_oldest(self) -> None:
        with self._lock:
            excess = len(self.rows) - self.cap
            if excess <= 0:
                return
            for row in self.rows[:excess]:
                lane, start, end = row[3], row[9], row[10]
                self.dropped_busy_ns[lane] = self.dropped_busy_ns.get(lane, 0) + max(end - start, 0)
            del self.rows[:excess]
            self.dropped += excess

    def _drop_oldest_requests(self) -> None:
        with self._lock:
            excess = len(self.requests) // _ACROSS - self.cap
            if excess <= 0:
                return
            oldest = self.requests[: excess * _ACROSS]
            for answer in oldest[_ANSWER::_ACROSS]:
                self.requests_dropped[answer] = self.requests_dropped.get(answer, 0) + 1
            del self.requests[: excess * _ACROSS]


def _clipped(spans: list[UnitSpan], first_ns: int) -> list[UnitSpan]:
    """Unit spans from the first kept row on; what lies before has no rows to account for it."""
    return [
        UnitSpan(span.lane, span.unit, max(span.open_ns, first_ns), span.close_ns)
        for span in spans
        if span.close_ns > first_ns
    ]


def _trace_of(rows: list[tuple[Any, ...]], spans: list[UnitSpan], recorder: Recorder) -> Trace:
    table = list(zip(*rows, strict=True)) or [()] * len(Row._fields)
    by_name = dict(zip(Row._fields, table, strict=True))
    names, name_codes = _codes(by_name["name"])
    lanes, lane_codes = _codes(by_name["lane"], [span.lane for span in spans])
    columns = {
        column: np.array(by_name[column], np.int64) if column != "rank" else np.zeros(len(rows), np.int64)
        for column in INT_COLUMNS
    }
    columns |= {"name": name_codes, "lane": lane_codes}
    lengths = np.fromiter(map(len, by_name["deps"]), np.int64, len(rows))
    return Trace(
        columns=columns,
        names=names,
        lanes=lanes,
        dep_ids=np.array([dep for deps in by_name["deps"] for dep in deps], np.int64),
        dep_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        units=tuple(sorted(spans, key=lambda span: (span.lane, span.unit, span.open_ns))),
        marks=tuple(recorder.marks),
        dropped=recorder.dropped,
        dropped_busy_ns=dict(recorder.dropped_busy_ns),
        meta=dict(recorder.meta),
        requests=_requests_of(recorder.requests),
        requests_dropped=dict(recorder.requests_dropped),
    )


def _requests_of(integers: array) -> dict[str, np.ndarray]:
    table = np.array(integers, np.int64).reshape(-1, _ACROSS)
    return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(REQUEST_COLUMNS)}


def _codes(values: tuple[str, ...], more: list[str] | None = None) -> tuple[tuple[str, ...], np.ndarray]:
    names = tuple(dict.fromkeys([*values, *(more or [])]))
    place = {name: code for code, name in enumerate(names)}
    return names, np.fromiter(map(place.__getitem__, values), np.int32, len(values))
