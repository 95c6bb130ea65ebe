"""The timeline of a finished run: a row for each unit of each lane, a bar for each op, the host's waits pale.

Plotly draws a few thousand bars well and fifty thousand not at all: with more than `max_slices` in view, each row
is drawn as its busy share in at most 2000 bins.
"""

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.figures.marks import Span, draw_marks
from labkit.figures.numbers import grouped, time_unit
from labkit.figures.op_bars import joined, op_bars, op_names
from labkit.figures.path import draw_path
from labkit.figures.raster import BINS, rasters
from labkit.figures.shown import Shown
from labkit.figures.slices import row_names, slices_of, units_of
from labkit.figures.theme import Theme, dress, plain, say
from labkit.figures.view import View, default_view
from labkit.metrics.critical_path import CriticalPath
from labkit.trace.trace import Trace

_ROW_PX = 34
_BESIDE_THE_PATH = 0.45
_BETWEEN_PX = 70


def timeline(
    shown: Shown,
    start_ns: int | None = None,
    end_ns: int | None = None,
    max_slices: int = BINS,
    theme: Theme = "either",
    path: CriticalPath | None = None,
) -> go.Figure:
    """The lanes of one run from `start_ns` to `end_ns` of its own time; by default its last ten steady steps.

    path  drawn as a line through the slices that lie on it, from lane to lane; all else is then paler
    """
    trace, figure = shown.trace, go.Figure()
    if trace is None or not len(trace):
        return say(dress(figure, "Timeline", [shown], theme, height=160), "no trace was kept of this run")
    first_ns, last_ns = default_view(shown)
    first_ns = first_ns if start_ns is None else start_ns
    last_ns = max(last_ns if end_ns is None else end_ns, first_ns + 1)
    view = View(first_ns, last_ns, trace.start_ns, time_unit(last_ns - trace.start_ns))
    words = _draw(figure, shown, trace, view, max_slices, op_names(trace))
    if path is not None:
        figure.update_traces(opacity=_BESIDE_THE_PATH, text=None)
        draw_path(figure, path, trace, view)
    dress(figure, "Timeline" if path is None else "Timeline and critical path", [shown], theme, height=_ROW_PX * len(units_of(trace)) + 100, words=words)
    figure.update_xaxes(title_text=f"time since the run opened ({view.unit.name})", range=view.range)
    return figure.update_layout(barmode="overlay", bargap=0)


def two_timelines(a: Shown, b: Shown, max_slices: int = BINS, theme: Theme = "either") -> go.Figure:
    """The last steady steps of two runs, one above the other, on the same time scale: what is shorter is faster."""
    if a.trace is None or b.trace is None or not len(a.trace) or not len(b.trace):
        return _none_kept(a, b, theme)
    rows = [len(units_of(a.trace)), len(units_of(b.trace))]
    height = _ROW_PX * sum(rows) + _BETWEEN_PX
    titles = [plain(a.name), plain(b.name)]
    figure = make_subplots(
        2,
        1,
        shared_xaxes=True,
        vertical_spacing=_BETWEEN_PX / height,
        row_heights=rows,
        subplot_titles=titles,
    )
    figure.update_annotations(xanchor="left", x=0)
    span_ns = max(last - first for first, last in (default_view(a), default_view(b)))
    names = joined(op_names(a.trace), op_names(b.trace))
    words = []
    for row, (run, trace) in enumerate(((a, a.trace), (b, b.trace)), start=1):
        last_ns = default_view(run)[1]
        view = View(last_ns - span_ns, last_ns, last_ns - span_ns, time_unit(span_ns))
        words.append(_draw(figure, run, trace, view, max_slices, names, row))
        figure.update_xaxes(range=view.range, row=row, col=1)
    dress(
        figure,
        "Timelines on one time scale",
        [a, b],
        theme,
        height=height + 90,
        words=" ".join(filter(None, words)),
    )
    unit = time_unit(span_ns)
    figure.update_xaxes(title_text=f"time since the start of the view ({unit.name})", row=2, col=1)
    return figure.update_layout(barmode="overlay", bargap=0)


def _draw(
    figure: go.Figure,
    run: Shown,
    trace: Trace,
    view: View,
    max_slices: int,
    names: dict[str, list[str]],
    row: int | None = None,
) -> str:
    """Add a run's slices, on a row of a stacked figure; words for the reader where slices are missing or merged."""
    slices = slices_of(trace, view.first_ns, view.last_ns)
    crowded = len(slices) > max_slices
    place = {} if row is None else {"row": row, "col": 1}
    for part in rasters(trace, slices, view) if crowded else op_bars(run, trace, slices, view, names):
        part.showlegend = part.showlegend and not _is_in_legend(figure, part)
        figure.add_trace(part, **place)
    draw_marks(figure, [(run, Span(view.origin_ns, view.first_ns, view.last_ns))], view.unit, row or 1)
    rows = [plain(name) for name in row_names(trace)]
    ticks = {"tickvals": list(range(len(rows))), "ticktext": rows, "range": [len(rows) - 0.4, -0.6]}
    figure.update_yaxes(**ticks, showgrid=False, zeroline=False, **place)
    lost = f"{run.label}: {grouped(trace.dropped)} older rows were not kept." if trace.dropped else ""
    merged = f"{run.label}: {grouped(len(slices))} slices in view, drawn as busy share." if crowded else ""
    return " ".join(filter(None, [lost, merged]))


def _is_in_legend(figure: go.Figure, part: go.Bar) -> bool:
    return any(other.legendgroup == part.legendgroup for other in figure.data)


def _none_kept(a: Shown, b: Shown, theme: Theme) -> go.Figure:
    missing = a if a.trace is None or not len(a.trace) else b
    figure = dress(go.Figure(), "Timelines on one time scale", [a, b], theme, height=160)
    return say(figure, f"no trace was kept of {missing.label}")
