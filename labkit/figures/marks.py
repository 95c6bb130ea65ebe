"""Marks: the instants at which a knob was turned, as vertical lines with the change in words."""

import plotly.graph_objects as go

from labkit.figures.numbers import TimeUnit
from labkit.figures.shown import Shown
from labkit.figures.theme import plain
from labkit.knobs.text import value_text
from labkit.trace.trace import Mark

_NAMED_AT_MOST = 6


def draw_marks(
    figure: go.Figure,
    run: Shown,
    origin_ns: int,
    unit: TimeUnit,
    first_ns: int = 0,
    last_ns: int = 2**62,
    row: int = 1,
) -> None:
    """Draw the marks of a run between two instants; more than six are drawn without their words."""
    marks = [mark for mark in run.trace.marks if first_ns <= mark.time_ns <= last_ns] if run.trace else []
    axes = {"xref": "x", "yref": "y domain"} if row == 1 else {"xref": f"x{row}", "yref": f"y{row} domain"}
    for place, mark in enumerate(marks):
        at = (mark.time_ns - origin_ns) / unit.ns
        figure.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, line={"width": 1, "dash": "dot"}, **axes)
        if len(marks) <= _NAMED_AT_MOST:
            words = plain(f"{run.label}: {mark_words(mark)}")
            lift = 12 * (place % 2)
            figure.add_annotation(
                text=words,
                x=at,
                y=1,
                xanchor="left",
                yanchor="bottom",
                yshift=lift,
                showarrow=False,
                font={"size": 11},
                **axes,
            )


def mark_words(mark: Mark) -> str:
    """`prefetch 0 → 4`."""
    return f"{mark.knob} {value_text(mark.old)} → {value_text(mark.new)}"
