"""Marks: the instants at which a knob was turned, as vertical lines with the change in words, which never overlap."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from labkit.figures.numbers import TimeUnit
from labkit.figures.shown import Shown
from labkit.figures.theme import plain
from labkit.knobs.text import value_text
from labkit.trace.trace import Mark

ROWS = 2
_ROW_PX = 12
_WIDTH_PX = 600  # of the plot, on a narrow page
_LETTER_PX = 6.2
_SAME_PX = 3


class Turned(NamedTuple):
    """A toggle of one run or of several at the same time: its place from 0 (left) to 1, its words."""

    at: float
    words: str
    labels: tuple[str, ...]


class Span(NamedTuple):
    """What a time axis shows: from when to when, after which origin."""

    origin_ns: int
    first_ns: int
    last_ns: int


def draw_marks(figure: go.Figure, runs: Sequence[tuple[Shown, Span]], unit: TimeUnit, row: int = 1) -> None:
    """Draw the marks of runs that share a time axis, whose spans are equally long; words without room are left out."""
    axes = {"xref": "x", "yref": "y domain"} if row == 1 else {"xref": f"x{row}", "yref": f"y{row} domain"}
    if not runs:
        return
    span = runs[0][1]
    length, start = (span.last_ns - span.first_ns) / unit.ns, (span.first_ns - span.origin_ns) / unit.ns
    taken: list[list[tuple[float, float]]] = [[] for _ in range(ROWS)]
    for turned in together(runs):
        x = start + turned.at * length
        figure.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, line={"width": 1, "dash": "dot"}, **axes)
        words = f"{', '.join(turned.labels)}: {turned.words}"
        if (room := _room(turned.at, _LETTER_PX * len(words) / _WIDTH_PX, taken)) is not None:
            figure.add_annotation(_note(plain(words), x, *room), **axes)


def together(runs: Sequence[tuple[Shown, Span]]) -> list[Turned]:
    """The marks of all runs from left to right; equal ones at the same place are one."""
    found: list[Turned] = []
    for run, span in runs:
        for mark in run.trace.marks if run.trace is not None else ():
            if span.first_ns <= mark.time_ns <= span.last_ns:
                at = (mark.time_ns - span.first_ns) / max(span.last_ns - span.first_ns, 1)
                found.append(Turned(at, mark_words(mark), (run.label,)))
    merged: list[Turned] = []
    for each in sorted(found, key=lambda turned: turned.at):
        same = [place for place, other in enumerate(merged) if _same(other, each)]
        if same:
            merged[same[0]] = merged[same[0]]._replace(labels=(*merged[same[0]].labels, *each.labels))
        else:
            merged.append(each)
    return merged


def mark_words(mark: Mark) -> str:
    """`prefetch 0 → 4`."""
    return f"{mark.knob} {value_text(mark.old)} → {value_text(mark.new)}"


def _same(one: Turned, other: Turned) -> bool:
    return one.words == other.words and one.labels != other.labels and abs(one.at - other.at) < _SAME_PX / _WIDTH_PX


def _room(at: float, wide: float, taken: list[list[tuple[float, float]]]) -> tuple[int, bool] | None:
    """The first row with room to the right of a line, or to its left where the figure ends; None where there is none."""
    leftwards = at + wide > 1
    start, end = (at - wide, at) if leftwards else (at, at + wide)
    for row, others in enumerate(taken):
        if all(end <= first or start >= last for first, last in others):
            others.append((start, end))
            return row, leftwards
    return None


def _note(words: str, x: float, row: int, leftwards: bool) -> dict[str, Any]:
    return {
        "text": words,
        "x": x,
        "y": 1,
        "xanchor": "right" if leftwards else "left",
        "yanchor": "bottom",
        "yshift": _ROW_PX * row,
        "showarrow": False,
        "font": {"size": 11},
    }
