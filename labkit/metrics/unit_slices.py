"""What ran where: each unit of each lane with its slices in order of time. All about lanes starts here.

A slice is a row that occupied its unit: an op that ran, or a wait of the host. Skipped and cancelled ops
never ran, and a late launch lies inside the host's own time.
"""

from dataclasses import dataclass

import numpy as np

from labkit.errors import TraceError
from labkit.trace import KIND_LAUNCH, Trace, UnitSpan

HOST = "host"


@dataclass(frozen=True, eq=False)
class UnitSlices:
    """One unit while it existed, and the rows of the slices that lay on it, in order of time."""

    span: UnitSpan
    rows: np.ndarray


def slices_by_unit(trace: Trace) -> list[UnitSlices]:
    """Every unit span of the trace with its slices. A unit that would have come after the end never was.

    Raises TraceError where two slices of one unit overlap, or one lies outside its unit's time.
    """
    spans: dict[tuple[str, int], list[UnitSpan]] = {}
    for span in (span for span in trace.units if span.close_ns > span.open_ns):
        spans.setdefault((span.lane, span.unit), []).append(span)
    rows = _rows_of_units(trace)
    stray = next(iter(rows.keys() - spans.keys()), None)
    if stray is not None:
        raise TraceError(
            f"{_words(trace, rows[stray][0])} ran on {stray[0]} {stray[1]}, which the trace does not list"
        )
    found = []
    for unit, unit_spans in spans.items():
        on_unit = rows.get(unit, np.empty(0, np.int64))
        _check_order(trace, on_unit)
        found += _share_out(trace, unit_spans, on_unit)
    return found


def _rows_of_units(trace: Trace) -> dict[tuple[str, int], np.ndarray]:
    ran = np.flatnonzero((trace["start_ns"] >= 0) & (trace["kind"] != KIND_LAUNCH))
    lane, unit = trace["lane"][ran], trace["unit"][ran]
    order = np.lexsort((trace["end_ns"][ran], trace["start_ns"][ran], unit, lane))
    ran, lane, unit = ran[order], lane[order], unit[order]
    changes = np.flatnonzero((np.diff(lane) != 0) | (np.diff(unit) != 0)) + 1
    groups = np.split(ran, changes) if len(ran) else []
    return {(trace.lane_of(rows[0]), int(trace["unit"][rows[0]])): rows for rows in groups}


def _check_order(trace: Trace, rows: np.ndarray) -> None:
    start, end = trace["start_ns"][rows], trace["end_ns"][rows]
    backwards = np.flatnonzero(end < start)
    if len(backwards):
        raise TraceError(f"{_words(trace, rows[backwards[0]])} ends before it starts")
    overlapping = np.flatnonzero(start[1:] < end[:-1])
    if len(overlapping):
        one, other = rows[overlapping[0]], rows[overlapping[0] + 1]
        where = f"{trace.lane_of(one)} {int(trace['unit'][one])}"
        raise TraceError(
            f"{_words(trace, one)} and {_words(trace, other)} overlap on {where}; a unit runs one at a time"
        )


def _share_out(trace: Trace, spans: list[UnitSpan], rows: np.ndarray) -> list[UnitSlices]:
    """The rows of one unit, by the span that holds them: a unit can go and come back."""
    spans = sorted(spans, key=lambda span: span.open_ns)
    start, end = trace["start_ns"][rows], trace["end_ns"][rows]
    place = np.searchsorted([span.close_ns for span in spans], end)
    inside = place < len(spans)
    inside[inside] = start[inside] >= np.array([span.open_ns for span in spans])[place[inside]]
    if not inside.all():
        row = rows[np.argmin(inside)]
        where = f"{spans[0].lane} {spans[0].unit}"
        times = ", ".join(f"{span.open_ns} to {span.close_ns}" for span in spans)
        raise TraceError(
            f"{_words(trace, row)} lies outside the time of {where}, which existed from {times} ns"
        )
    return [UnitSlices(span, rows[place == number]) for number, span in enumerate(spans)]


def _words(trace: Trace, row: int) -> str:
    start, end = int(trace["start_ns"][row]), int(trace["end_ns"][row])
    return f"'{trace.name_of(row)}' (op {int(trace['op'][row])}, {start} to {end} ns)"
