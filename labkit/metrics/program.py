"""The host's program, read back from a trace: what was submitted and awaited, and how long each part took.

`replay` runs it again with other durations or widths. An item is one verb: an op, an inline op, or a wait.
Between two items the host takes the time that it took in the recording; a launch that came late is an item at
the place where it came.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush, heapreplace
from typing import Any, NamedTuple

import numpy as np

from labkit.errors import TraceError
from labkit.metrics.lane_units import LaneUnits, units_of_lane
from labkit.metrics.unit_slices import HOST, UnitSlices, slices_by_unit
from labkit.schedule import Status
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex


class Verb(IntEnum):
    """What an item is. An op that was skipped or cancelled is submitted, and takes no time."""

    OP = 0
    INLINE = 1
    WAIT = 2
    NOT_RUN = 3


class Wait(NamedTuple):
    """What a wait waited for. Items count from 1.

    waker     the item that ended it, 0 if none did
    awaited   the items that it waited for
    deadline  when it gave up in the recording, −1 if it did not
    """

    waker: int
    awaited: tuple[int, ...]
    deadline: int


@dataclass(frozen=True, eq=False)
class Program:
    """n items in the order of the host's verbs. Items are counted from 1; 0 stands for none.

    rows      item → row of the trace
    row_count  rows of the trace
    clock_ns  when the host entered its first verb
    advance   host time before each item: the kernel's own program, and the submit up to where the op may
              start
    duration, lag  int64  how long each op took; how long after it was ready it started (a wait: the host's
                   wake-up)
    verbs     what each item is
    needs     the items that each depends on
    waits     item → what it waited for
    lane_of, name_of  codes into `lanes` and `names`
    units     lane code → the units of the lane, for lanes on which ops ran
    shapes    what `replay` has prepared so far
    """

    rows: np.ndarray
    row_count: int
    clock_ns: int
    advance: list[int]
    duration: np.ndarray
    lag: np.ndarray
    verbs: list[int]
    needs: list[tuple[int, ...]]
    waits: dict[int, Wait]
    lane_of: np.ndarray
    name_of: np.ndarray
    lanes: tuple[str, ...]
    names: tuple[str, ...]
    units: dict[int, LaneUnits]
    shapes: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.rows)


def compile_replay(trace: Trace) -> Program:
    """The program of a trace. Dependencies that are not in the trace count as done.

    Raises TraceError: a dependency on a later op, verbs of the host that overlap, slices of one unit that
    overlap.
    """
    _check_dependencies(trace)
    columns = _Columns(trace)
    units = _lane_units(trace, columns)
    advance, duration, lag, clock = _times(columns, units)
    return Program(
        rows=columns.rows,
        row_count=len(trace),
        clock_ns=clock,
        advance=advance,
        duration=np.array(duration, np.int64),
        lag=np.array(lag, np.int64),
        verbs=columns.verbs,
        needs=columns.needs,
        waits=columns.waits,
        lane_of=trace["lane"][columns.rows],
        name_of=trace["name"][columns.rows],
        lanes=trace.lanes,
        names=trace.names,
        units=units,
    )


class _Columns:
    """The rows of a trace in the order of the host's verbs, as lists by item (from 0)."""

    def __init__(self, trace: Trace):
        kind, ran = trace["kind"], trace["start_ns"] >= 0
        host = np.isin(trace["lane"], [code for code, lane in enumerate(trace.lanes) if lane == HOST])
        inline = host & ran & (kind == KIND_OP)
        entered, left = _launched(trace)
        began = np.where(inline, trace["start_ns"], entered)
        rows = np.flatnonzero(kind != KIND_LAUNCH)
        self.rows = rows[np.argsort(began[rows], kind="stable")]
        self.item_of_row = np.full(len(trace), -1)
        self.item_of_row[self.rows] = np.arange(len(self.rows))
        verb = np.where(inline, Verb.INLINE, np.where(ran, Verb.OP, Verb.NOT_RUN))
        self.verbs: list[int] = np.where(kind == KIND_WAIT, Verb.WAIT, verb)[self.rows].tolist()
        self.entered, self.left = entered[self.rows].tolist(), left[self.rows].tolist()
        self.start, self.end = trace["start_ns"][self.rows].tolist(), trace["end_ns"][self.rows].tolist()
        self.lane = trace["lane"][self.rows].tolist()
        self._trace = trace
        self.needs: list[tuple[int, ...]] = []
        self.waits: dict[int, Wait] = {}
        self._read_dependencies(RowIndex(trace))

    def name(self, item: int) -> str:
        """An item for people."""
        row = self.rows[item]
        return f"'{self._trace.name_of(row)}' (op {int(self._trace['op'][row])})"

    def _read_dependencies(self, index: RowIndex) -> None:
        trace = self._trace
        source_rows = index.rows(trace.dep_ids)
        sources = np.where(source_rows >= 0, self.item_of_row[source_rows], -1).tolist() if len(trace) else []
        waker_rows = index.rows(trace["woke_by"])
        wakers = np.where(waker_rows >= 0, self.item_of_row[waker_rows], -1).tolist() if len(trace) else []
        woke_by, cancelled = trace["woke_by"].tolist(), (trace["status"] == Status.CANCELLED).tolist()
        offsets = trace.dep_offsets.tolist()
        for item, row in enumerate(self.rows.tolist()):
            needs = tuple([source + 1 for source in sources[offsets[row] : offsets[row + 1]] if source >= 0])
            if self.verbs[item] == Verb.WAIT:
                self.waits[item + 1] = self._wait(item, needs, wakers[row], woke_by[row])
                needs = ()
            elif self.verbs[item] == Verb.NOT_RUN:
                needs = tuple([need for need in needs if need <= item and not cancelled[row]])
            elif needs and max(needs) > item:
                raise TraceError(
                    f"{self.name(item)} was launched before {self.name(max(needs) - 1)}, on which it depends"
                )
            self.needs.append(needs)

    def _wait(self, item: int, needs: tuple[int, ...], waker: int, woke_by: int) -> Wait:
        earlier = tuple([need for need in needs if need <= item])
        if woke_by >= 0:
            return Wait(waker + 1 if waker < item else 0, earlier, -1)
        left = self.end[item]
        if any(self.end[need - 1] <= left for need in earlier):
            earlier = ()  # the run was cancelled: it was not for what it awaited that the wait ended
        return Wait(0, earlier, left)


def _check_dependencies(trace: Trace) -> None:
    later = np.flatnonzero(trace.dep_ids >= np.repeat(trace["op"], np.diff(trace.dep_offsets)))
    if len(later):
        row = int(np.searchsorted(trace.dep_offsets, later[0], side="right")) - 1
        name, own = trace.name_of(row), int(trace["op"][row])
        raise TraceError(
            f"'{name}' (op {own}) depends on op {int(trace.dep_ids[later[0]])}, which comes later"
        )


def _launched(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """When the host began and ended to submit each row: for an op that was launched late, that launch."""
    entered, left = trace["submit_ns"].copy(), trace["queued_ns"].copy()
    launches = np.flatnonzero(trace["kind"] == KIND_LAUNCH)
    index = RowIndex(trace)
    for launch in launches.tolist():
        rows = index.rows(trace.deps(launch))
        entered[rows[rows >= 0]], left[rows[rows >= 0]] = trace["start_ns"][launch], trace["end_ns"][launch]
    return entered, left


def _lane_units(trace: Trace, columns: _Columns) -> dict[int, LaneUnits]:
    by_lane: dict[str, list[UnitSlices]] = {}
    for unit in slices_by_unit(trace):
        by_lane.setdefault(unit.span.lane, []).append(unit)
    verbs = np.array(columns.verbs, np.int64)
    units = {}
    for code in np.unique(trace["lane"][columns.rows[verbs == Verb.OP]]).tolist():
        items = columns.rows[(verbs == Verb.OP) & (trace["lane"][columns.rows] == code)]
        units[code] = units_of_lane(trace, by_lane[trace.lanes[code]], items, columns.item_of_row)
    return units


def _times(columns: _Columns, units: dict[int, LaneUnits]) -> tuple[list[int], list[int], list[int], int]:
    """For each item: the host time before it, its duration and its lag; and the host's time at the first."""
    advance, duration, lag = [], [], []
    free = {lane: [0] * of_lane.initial for lane, of_lane in units.items()}
    host = clock = columns.entered[0] if columns.entered else 0
    for item, verb in enumerate(columns.verbs):
        entered, start, end = columns.entered[item], columns.start[item], columns.end[item]
        needed = max([columns.end[need - 1] for need in columns.needs[item]], default=-1)
        if verb == Verb.OP:
            lane, at = columns.lane[item], min(columns.left[item], max(start, entered))
            ready, next_host = max(at, needed, _take(free[lane], units[lane], item, columns.end)), at
        elif verb == Verb.INLINE:
            at = start if needed <= max(entered, host) else min(max(entered, host) + 1, start)
            ready, next_host = max(at, needed), end
        elif verb == Verb.WAIT:
            at = entered + 1
            waker = columns.waits[item + 1].waker
            ready, next_host = max(at, columns.end[waker - 1] if waker else -1), end
            start, end = (ready, ready) if columns.waits[item + 1].deadline >= 0 else (end, end)
        else:
            at = next_host = columns.left[item]
            start = end = ready = columns.end[item] = max(at, needed)
        if at < host:
            raise TraceError(
                f"{columns.name(item)} was submitted before the host had left the verb before it"
            )
        advance.append(at - host)
        duration.append(end - start)
        lag.append(max(start - ready, 0))
        host = next_host
    return advance, duration, lag, clock


def _take(heap: list[int], of_lane: LaneUnits, item: int, ends: list[int]) -> int:
    """Take the unit of a lane that is free first, until the item's end; since when it is free."""
    for last in of_lane.joined.get(item + 1, ()):
        heappush(heap, ends[last - 1] if last else 0)
    if item + 1 in of_lane.left:
        return heappop(heap)
    return heapreplace(heap, ends[item])
