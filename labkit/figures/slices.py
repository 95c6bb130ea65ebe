"""The slices of a trace that are in view: which row they lie on, what they are, from when to when.

The host's row has its waits, its late launches and the time that its submits took: it tells what the host did.
"""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from labkit.figures.colours import lane_order
from labkit.schedule import HOST, Status
from labkit.trace.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace

Unit = tuple[str, int]

_VISIBLE_SHARE = 1 / 2000


class Sort(IntEnum):
    """What a slice is."""

    OP = 0
    WAIT = 1
    LAUNCH = 2
    FAILED = 3


@dataclass(frozen=True, eq=False)
class Slices:
    """Slices as columns: row, sort, name (a code into the trace's names), step, start and end, cut to the view."""

    row: np.ndarray
    sort: np.ndarray
    name: np.ndarray
    step: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def where(self, chosen: np.ndarray) -> "Slices":
        """The slices that a mask or an index chooses."""
        return Slices(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def then(self, other: "Slices") -> "Slices":
        """These slices and others."""
        return Slices(
            *(np.append(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        )

    def cut(self, first_ns: int, last_ns: int) -> "Slices":
        """What lies between two instants."""
        seen = self.where((self.end_ns > first_ns) & (self.start_ns < last_ns))
        start_ns, end_ns = np.maximum(seen.start_ns, first_ns), np.minimum(seen.end_ns, last_ns)
        return Slices(seen.row, seen.sort, seen.name, seen.step, start_ns, end_ns)


def units_of(trace: Trace) -> list[Unit]:
    """The rows of a timeline: every unit of every lane, the host first, then in the order of a batch's way."""
    rows = {(span.lane, span.unit) for span in trace.units}
    ran = trace["start_ns"] >= 0
    pairs = np.unique(np.stack([trace["lane"][ran], trace["unit"][ran]]), axis=1).T
    rows |= {(trace.lanes[lane], int(unit)) for lane, unit in pairs.tolist()}
    return sorted(rows, key=lambda row: (lane_order(row[0]), row[1]))


def row_names(trace: Trace) -> list[str]:
    """The names of the rows: the lane, with the unit's number where it has several."""
    units = units_of(trace)
    lanes = [lane for lane, _ in units]
    return [f"{lane} {unit}" if lanes.count(lane) > 1 else lane for lane, unit in units]


def slices_of(trace: Trace, first_ns: int, last_ns: int) -> Slices:
    """The slices that lie in the view, at least in part."""
    own = _own_slices(trace).cut(first_ns, last_ns)
    return own.then(_submits(trace, last_ns - first_ns).cut(first_ns, last_ns))


def _own_slices(trace: Trace) -> Slices:
    ran = np.flatnonzero(trace["start_ns"] >= 0)
    kind, status = trace["kind"][ran], trace["status"][ran]
    cases = [kind == KIND_WAIT, kind == KIND_LAUNCH, status == Status.FAILED]
    sort = np.select(cases, [Sort.WAIT, Sort.LAUNCH, Sort.FAILED], Sort.OP)
    columns = (trace[name][ran] for name in ("name", "step", "start_ns", "end_ns"))
    return Slices(_rows(trace, ran), sort, *columns)


def _submits(trace: Trace, view_ns: int) -> Slices:
    """The host's time inside `submit`, where it is long enough to be seen."""
    units = units_of(trace)
    host_row = units.index((str(HOST), 0)) if (str(HOST), 0) in units else -1
    elsewhere = np.array([lane != str(HOST) for lane in trace.lanes], bool)[trace["lane"]]
    long = trace["queued_ns"] - trace["submit_ns"] >= max(view_ns * _VISIBLE_SHARE, 1)
    chosen = np.flatnonzero((trace["kind"] == KIND_OP) & elsewhere & long & (host_row >= 0))
    columns = (trace[name][chosen] for name in ("name", "step", "submit_ns", "queued_ns"))
    return Slices(np.full(len(chosen), host_row), np.full(len(chosen), Sort.LAUNCH), *columns)


def _rows(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """On which row of the timeline each of these rows of the trace lies."""
    place = {unit: number for number, unit in enumerate(units_of(trace))}
    pairs, inverse = np.unique(
        np.stack([trace["lane"][rows], trace["unit"][rows]]), axis=1, return_inverse=True
    )
    places = np.array([place[trace.lanes[lane], unit] for lane, unit in pairs.T.tolist()], np.int64)
    return places[inverse.ravel()]
