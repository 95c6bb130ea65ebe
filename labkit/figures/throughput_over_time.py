"""Throughput over time, with the knobs that were turned: whether a run was steady, and what a toggle did."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from labkit.figures.colours import with_alpha
from labkit.figures.look import Look, looks
from labkit.figures.marks import Span, draw_marks
from labkit.figures.numbers import TimeUnit, time_unit
from labkit.figures.shown import Shown, rate_unit
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.window import completions
from labkit.trace.trace import Trace
from labkit.units import NS_PER_S

BINS = 150

_STEPS_IN_A_BIN = 4


class Rates(NamedTuple):
    """Items per second between successive edges."""

    edges_ns: np.ndarray
    items_per_s: np.ndarray


def throughput_over_time(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """Items per second between completions, at most 150 bins a run; pale outside the steady window."""
    figure = go.Figure()
    lengths_ns = [run.trace.end_ns - run.trace.start_ns for run in runs if run.trace is not None]
    longest_ns = max(lengths_ns, default=0)
    unit = time_unit(longest_ns)
    for run, look in zip(runs, looks(runs), strict=True):
        if run.trace is not None:
            _add_run(figure, run, run.trace, look, unit)
    kept = [(run, run.trace.start_ns) for run in runs if run.trace is not None]
    draw_marks(figure, [(run, Span(opened, opened, opened + longest_ns)) for run, opened in kept], unit)
    words = "pale: outside the window that the metrics count"
    dress(figure, "Throughput over time", runs, theme, height=300, words=words)
    figure.update_yaxes(title_text=rate_unit(runs), rangemode="tozero")
    figure.update_xaxes(
        title_text=f"time since the run opened ({unit.name})", range=[0, max(longest_ns, 1) / unit.ns]
    )
    return figure if figure.data else say(figure, "no trace with two completed steps or more")


def rates(trace: Trace, first_ns: int, last_ns: int, bins: int = BINS) -> Rates:
    """Throughput between completions from `first_ns` to `last_ns`.

    Every edge is a completion, so that no bin cuts a step in two; a stall is one long bin.
    """
    rows = completions(trace)
    ends_ns = trace["end_ns"][rows]
    rows = rows[(ends_ns >= first_ns) & (ends_ns <= last_ns)]
    if len(rows) < 2:
        return Rates(np.empty(0, np.int64), np.empty(0))
    steps = len(rows) - 1
    size = max(-(-steps // bins), min(_STEPS_IN_A_BIN, steps // 10), 1)
    places = np.unique(np.append(np.arange(0, steps, size), steps))
    edges_ns = trace["end_ns"][rows[places]]
    items = np.diff(np.cumsum(trace["items"][rows])[places])
    return Rates(edges_ns, items * NS_PER_S / np.maximum(np.diff(edges_ns), 1))


def _add_run(figure: go.Figure, run: Shown, trace: Trace, look: Look, unit: TimeUnit) -> None:
    first_ns, last_ns = run.summary.window_ns
    before, after = rates(trace, trace.start_ns, first_ns), rates(trace, last_ns, trace.end_ns)
    for outside in (before, after):
        if len(outside.items_per_s):
            line = _line(run, look, outside, trace.start_ns, unit)
            line.update(line={"color": with_alpha(look.colour, 0.4 * look.strength)}, showlegend=False)
            figure.add_trace(line)
    steady = rates(trace, first_ns, last_ns)
    if len(steady.items_per_s):
        figure.add_trace(_line(run, look, steady, trace.start_ns, unit))


def _line(run: Shown, look: Look, rates: Rates, opened_ns: int, unit: TimeUnit) -> go.Scatter:
    """A step line: each value holds from its edge to the next."""
    return go.Scatter(
        x=(rates.edges_ns - opened_ns) / unit.ns,
        y=np.append(rates.items_per_s, rates.items_per_s[-1]),
        mode="lines",
        line={"shape": "hv", "color": look.line_colour, "width": 2, "dash": look.dash},
        name=plain(run.name),
        legendgroup=run.name,
        hovertemplate=f"{plain(run.name)}<br>%{{y:.3s}} {run.summary.throughput.unit}<extra></extra>",
    )
