"""The critical path on a timeline: a line through the slices that lie on it, which goes from lane to lane."""

import numpy as np
import plotly.graph_objects as go

from labkit.figures.slices import units_of
from labkit.figures.view import View
from labkit.metrics.critical_path import CriticalPath, Piece
from labkit.schedule import HOST
from labkit.trace.trace import Trace
from labkit.units import format_time

COLOUR = "#D6336C"
"""Of no lane and no run."""


def draw_path(figure: go.Figure, path: CriticalPath, trace: Trace, view: View) -> None:
    """Add the part of the path that is in view."""
    pieces = [piece for piece in path.pieces if piece.end_ns > view.first_ns and piece.start_ns < view.last_ns]
    place = {unit: row for row, unit in enumerate(units_of(trace))}
    x: list[float] = []
    y: list[int] = []
    words: list[str] = []
    row = 0
    for piece in pieces:
        row = _row(piece, trace, place, row)
        ends = np.array([max(piece.start_ns, view.first_ns), min(piece.end_ns, view.last_ns)])
        x += view.x(ends).tolist()
        y += [row, row]
        words += [f"{piece.name}, {format_time(piece.ns)}"] * 2
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="lines",
            line={"color": COLOUR, "width": 3},
            name="critical path",
            text=words,
            hovertemplate="on the critical path: %{text}<extra></extra>",
        )
    )


def _row(piece: Piece, trace: Trace, place: dict[tuple[str, int], int], before: int) -> int:
    """An op's own row; the host's for what the host did; the row before for the gap until an op runs."""
    if piece.row >= 0 and piece.sort == "op":
        return place.get((trace.lane_of(piece.row), int(trace["unit"][piece.row])), before)
    if piece.lane == str(HOST):
        return place.get((str(HOST), 0), before)
    return before
