"""The legend of a timeline: what took the most time first, and one entry for all the rest. A real GPU's trace has tens of kernels' names."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from labkit.figures.theme import legend_rows

MOST = 10
ROW_PX = 20
"""Height of a row of the legend, for which `dress` makes room below the figure."""

CHARACTERS = 40

_REST = "other"


def short_legend(figure: go.Figure, most: int = MOST) -> go.Figure:
    """The same figure, its bars listed by the time that they took in view; past `most` they share one entry, `other (12)`, and its switch.

    A figure with one bar more than that keeps it: an entry for a single one gains nothing.
    """
    rows = legend_rows(figure)
    bars: dict[str, list[Any]] = {}
    for bar in figure.data:
        if isinstance(bar, go.Bar) and bar.legendgroup:
            bars.setdefault(bar.legendgroup, []).append(bar)
    in_order = sorted(bars.values(), key=lambda group: -sum(_length(bar) for bar in group))
    kept = in_order if len(in_order) <= most + 1 else in_order[:most]
    for rank, group in enumerate(kept, start=1):
        for bar in group:
            bar.update(legendrank=rank, name=_short(bar.name))
    rest = in_order[len(kept) :]
    for number, group in enumerate(rest):
        for bar in group:
            shown = number == 0 and bar.showlegend is not False
            bar.update(showlegend=shown, legendgroup=_REST, legendrank=len(kept) + 1)
            if shown:
                bar.name = f"{_REST} ({len(rest)})"
    spare_px = ROW_PX * (rows - legend_rows(figure))
    return figure.update_layout(height=figure.layout.height - spare_px, margin_b=figure.layout.margin.b - spare_px)


def _short(name: str) -> str:
    """A kernel's name that leaves room beside it; hovering tells it whole."""
    return name if len(name) <= CHARACTERS else f"{name[: CHARACTERS - 1]}…"


def _length(bar: go.Bar) -> float:
    lengths: Sequence[float] = () if bar.x is None else bar.x
    return float(sum(lengths))
