"""A timeline with more slices than a page can draw: the busy share of each row in at most 2000 bins."""

import numpy as np
import plotly.graph_objects as go

from labkit.figures.colours import lane_colour, role_of, with_alpha
from labkit.figures.slices import Slices, Sort, units_of
from labkit.figures.view import View
from labkit.trace.trace import Trace

BINS = 2_000

_IDLE_STRENGTH = 0.07


def rasters(trace: Trace, slices: Slices, view: View) -> list[go.Heatmap]:
    """One picture for each role: its rows, a bin for each 2000th part of the view. Waiting is not busy."""
    units = units_of(trace)
    edges_ns = np.linspace(view.first_ns, view.last_ns, min(BINS, view.span_ns) + 1)
    working = slices.where(slices.sort != Sort.WAIT)
    roles = dict.fromkeys(role_of(lane) for lane, _ in units)
    pictures = []
    for role in roles:
        rows = [row for row, (lane, _) in enumerate(units) if role_of(lane) == role]
        of_rows = [working.where(working.row == row) for row in rows]
        shares = np.stack([busy_shares(each.start_ns, each.end_ns, edges_ns) for each in of_rows])
        pictures.append(_picture(role, rows, view.x(edges_ns), shares))
    return pictures


def busy_shares(start_ns: np.ndarray, end_ns: np.ndarray, edges_ns: np.ndarray) -> np.ndarray:
    """The share of each bin that is covered by at least one of the intervals; exact, whatever their number.

    edges_ns  bin edges, ascending, one more than there are bins
    """
    if len(start_ns) == 0:
        return np.zeros(len(edges_ns) - 1)
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], np.maximum.accumulate(end_ns[order])
    start = np.maximum(start, np.append(start[:1], end[:-1]))
    length = np.maximum(end - start, 0)
    covered = np.cumsum(length)
    times = np.stack([start, start + length], axis=1).ravel()
    covered_at = np.stack([covered - length, covered], axis=1).ravel()
    return np.diff(np.interp(edges_ns, times, covered_at)) / np.diff(edges_ns)


def _picture(role: str, rows: list[int], x: np.ndarray, shares: np.ndarray) -> go.Heatmap:
    colour = lane_colour(role)
    return go.Heatmap(
        x=x,
        y=rows,
        z=shares.astype(np.float32),
        zmin=0,
        zmax=1,
        colorscale=[[0, with_alpha(colour, _IDLE_STRENGTH)], [1, with_alpha(colour, 1)]],
        showscale=False,
        showlegend=False,
        ygap=8,
        name=role,
        hovertemplate="%{y}: busy %{z:.0%}<extra></extra>",
    )
