"""Side by side: throughput, step interval, batch age and utilization of A, B and their predictions."""

from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.figures.colours import lane_colour, lane_order
from labkit.figures.look import Look, looks
from labkit.figures.numbers import count_text, metric_text, time_unit
from labkit.figures.shown import Shown, absences, rate_unit
from labkit.figures.theme import Theme, dress, plain
from labkit.metrics.metric import Metric
from labkit.units import format_percent, significant

PERCENTILES = ("p50", "p95", "p99")

_THROUGHPUT, _INTERVAL, _AGE, _BUSY = (1, 1), (1, 2), (2, 1), (2, 2)
_TITLES = (
    "Throughput (higher is better)",
    "Step interval (lower is better)",
    "Batch age (lower is better)",
    "Busy share of each lane",
)
_LABELLED_RUNS = 3
_OF_REQUESTS = ("p50", "p95", "p99", "p99.9")


def side_by_side(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """Four panels, one bar a run in each group; predictions hatched. A number that is absent is a gap.

    Of runs that serve: what came, what was served and what kept its promise, and the latency of requests instead of the steps' own.
    """
    if runs and all(run.summary.requests is not None for run in runs):
        return _requests_side_by_side(runs, theme)
    figure = make_subplots(2, 2, subplot_titles=_TITLES, horizontal_spacing=0.12, vertical_spacing=0.2)
    intervals = time_unit(_largest(run.summary.step_interval for run in runs))
    ages = time_unit(_largest(run.summary.batch_age for run in runs))
    lanes = sorted({lane for run in runs for lane in run.summary.utilization}, key=lane_order)
    labelled = len(runs) <= _LABELLED_RUNS
    for run, look in zip(runs, looks(runs), strict=True):
        figure.add_trace(_throughput(run, look, labelled), *_THROUGHPUT)
        figure.add_trace(_times(run, look, run.summary.step_interval, intervals.ns, labelled), *_INTERVAL)
        figure.add_trace(_times(run, look, run.summary.batch_age, ages.ns, labelled), *_AGE)
        figure.add_trace(_busy(run, look, lanes, labelled), *_BUSY)
    missing = absences(runs)
    words = f"gaps are absent numbers: {missing[0]}" if missing else ""
    dress(figure, "Side by side", runs, theme, height=600, words=words)
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text=rate_unit(runs), row=1, col=1)
    figure.update_yaxes(title_text=intervals.name, row=1, col=2)
    figure.update_yaxes(title_text=ages.name, row=2, col=1)
    figure.update_yaxes(
        title_text="% of wall time", range=[0, 114], tickvals=[0, 25, 50, 75, 100], row=2, col=2
    )
    figure.update_xaxes(showticklabels=False, row=1, col=1)
    return figure


def _requests_side_by_side(runs: Sequence[Shown], theme: Theme) -> go.Figure:
    titles = ("Requests per second", "Latency from arrival (lower is better)", "Of it, waiting for a batch", "Busy share of each lane")
    figure = make_subplots(2, 2, subplot_titles=titles, horizontal_spacing=0.12, vertical_spacing=0.2)
    groups = [each for run in runs if (each := run.summary.requests) is not None]
    latency = time_unit(_largest((each.latency for each in groups), _OF_REQUESTS))
    waiting = time_unit(_largest((each.waiting for each in groups), _OF_REQUESTS))
    lanes = sorted({lane for run in runs for lane in run.summary.utilization}, key=lane_order)
    labelled = len(runs) <= _LABELLED_RUNS
    for run, look, each in zip(runs, looks(runs), groups, strict=True):
        rates = [each.offered, run.summary.throughput, each.goodput]
        values = [rate.value for rate in rates]
        words = ["" if value is None else count_text(value) for value in values]
        bar = _bar(run, look.marker(look.colour), ("offered", "served", "in time"), values, rates)
        figure.add_trace(bar.update(text=words if labelled else None, showlegend=True), *_THROUGHPUT)
        figure.add_trace(_times(run, look, each.latency, latency.ns, labelled, _OF_REQUESTS), *_INTERVAL)
        figure.add_trace(_times(run, look, each.waiting, waiting.ns, labelled, _OF_REQUESTS), *_AGE)
        figure.add_trace(_busy(run, look, lanes, labelled), *_BUSY)
    missing = absences(runs)
    dress(figure, "Side by side", runs, theme, height=600, words=f"gaps are absent numbers: {missing[0]}" if missing else "")
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="requests/s", row=1, col=1)
    figure.update_yaxes(title_text=latency.name, row=1, col=2)
    figure.update_yaxes(title_text=waiting.name, row=2, col=1)
    return figure.update_yaxes(title_text="% of wall time", range=[0, 114], tickvals=[0, 25, 50, 75, 100], row=2, col=2)


def _throughput(run: Shown, look: Look, labelled: bool) -> go.Bar:
    value = run.summary.throughput.value
    words = ["" if value is None else count_text(value)]
    bar = _bar(run, look.marker(look.colour), [""], [value], [run.summary.throughput])
    return bar.update(text=words if labelled else None, showlegend=True)


def _times(run: Shown, look: Look, metrics: Mapping[str, Metric], unit_ns: int, labelled: bool, names: Sequence[str] = PERCENTILES) -> go.Bar:
    shown = [metrics.get(name) for name in names]
    values = [None if metric is None or metric.value is None else metric.value / unit_ns for metric in shown]
    words = ["" if value is None else significant(value) for value in values]
    return _bar(run, look.marker(look.colour), names, values, shown).update(
        text=words if labelled else None
    )


def _busy(run: Shown, look: Look, lanes: Sequence[str], labelled: bool) -> go.Bar:
    shown = [run.summary.utilization.get(lane) for lane in lanes]
    values = [None if metric is None or metric.value is None else 100 * metric.value for metric in shown]
    words = ["" if value is None else format_percent(value / 100).removesuffix(" %") for value in values]
    marker = look.lane_marker([lane_colour(lane) for lane in lanes])
    return _bar(run, marker, lanes, values, shown).update(text=words if labelled else None)


def _bar(
    run: Shown, marker: dict, x: Sequence[str], y: Sequence[float | None], metrics: Sequence[Metric | None]
) -> go.Bar:
    return go.Bar(
        x=list(x),
        y=list(y),
        name=plain(run.name),
        legendgroup=run.name,
        showlegend=False,
        marker=marker,
        textposition="outside",
        textangle=0,
        cliponaxis=False,
        constraintext="none",
        textfont={"size": 11},
        customdata=[metric_text(metric) for metric in metrics],
        hovertemplate=f"{plain(run.name)}<br>%{{x}} %{{customdata}}<extra></extra>",
    )


def _largest(groups: Iterable[Mapping[str, Metric]], names: Sequence[str] = PERCENTILES) -> float:
    values = [metrics[name].value or 0 for metrics in groups for name in names if name in metrics]
    return max(values, default=0)
