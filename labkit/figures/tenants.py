"""What each tenant of a server got: its share of the service beside its share by weight, its latency, and what was served in time."""

from collections.abc import Callable, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.figures.look import Look, looks
from labkit.figures.numbers import metric_text, time_unit
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.fairness import Fairness, TenantSummary
from labkit.metrics.metric import Metric

_TITLES = ("Share of service, %", "Latency: ● p50, ◆ p99", "Served in time, requests/s")


def tenants(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """Three panels, each tenant of each run; lines are shares by weight; who starved is told below the title."""
    figure = make_subplots(1, 3, subplot_titles=_TITLES, horizontal_spacing=0.08)
    shared = [(run, look, fair) for run, look in zip(runs, looks(runs), strict=True) if (fair := _fairness(run)) is not None]
    values = [value for _, _, fair in shared for each in fair.tenants for value in (each.latency_p50.value, each.latency_p99.value) if value]
    unit = time_unit(sorted(values)[len(values) // 2] if values else 0.0)
    for run, look, fair in shared:
        names = [plain(each.name) for each in fair.tenants]
        figure.add_trace(_bars(run, look, names, fair, lambda each: each.service, 0.01).update(showlegend=True), 1, 1)
        figure.add_trace(_points(run, look, names, [each.latency_p50 for each in fair.tenants], "circle", unit.ns), 1, 2)
        figure.add_trace(_points(run, look, names, [each.latency_p99 for each in fair.tenants], "diamond", unit.ns), 1, 2)
        figure.add_trace(_bars(run, look, names, fair, lambda each: each.goodput, 1.0), 1, 3)
    if shared:
        figure.add_trace(_entitled(shared[-1][2]), 1, 1)
    starved = [f"{run.label}: {words}" for run, _, fair in shared for words in fair.starved]
    index = [f"{run.label}: {_index_words(fair.jain)}" for run, _, fair in shared]
    dress(figure, "What each tenant got", runs, theme, height=300, words="; ".join([*index, *starved]))
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text=unit.name, type="log", dtick="D2", row=1, col=2)
    figure.update_layout(scattermode="group")
    return figure if shared else say(figure, "no run has several tenants")


def _fairness(run: Shown) -> Fairness | None:
    return run.summary.requests.fairness if run.summary.requests is not None else None


def _index_words(index: Metric) -> str:
    return f"fairness {index.value:.3f}" if index.value is not None else f"no index of fairness: {index.reason}"


def _bars(run: Shown, look: Look, names: Sequence[str], fair: Fairness, of: Callable[[TenantSummary], Metric], unit: float) -> go.Bar:
    metrics = [of(each) for each in fair.tenants]
    return go.Bar(
        x=list(names),
        y=[None if metric.value is None else metric.value / unit for metric in metrics],
        name=plain(run.name),
        legendgroup=run.name,
        showlegend=False,
        marker=look.marker(look.colour),
        customdata=[metric_text(metric) for metric in metrics],
        hovertemplate=f"{plain(run.name)}<br>%{{x}}: %{{customdata}}<extra></extra>",
    )


def _points(run: Shown, look: Look, names: Sequence[str], metrics: Sequence[Metric], symbol: str, unit_ns: int) -> go.Scatter:
    return go.Scatter(
        x=list(names),
        y=[None if metric.value is None else metric.value / unit_ns for metric in metrics],
        mode="markers",
        marker={"symbol": symbol if look.measured else f"{symbol}-open", "size": 10, "color": look.line_colour, "line": {"width": 2}},
        name=plain(run.name),
        legendgroup=run.name,
        showlegend=False,
        offsetgroup=run.name,
        customdata=[metric_text(metric) for metric in metrics],
        hovertemplate=f"{plain(run.name)}<br>%{{x}}: %{{customdata}}<extra></extra>",
    )


def _entitled(fair: Fairness) -> go.Scatter:
    return go.Scatter(
        x=[plain(each.name) for each in fair.tenants],
        y=[100 * each.entitled for each in fair.tenants],
        mode="markers",
        marker={"symbol": "line-ew", "size": 44, "line": {"width": 2, "color": "#808080"}},
        name="share by weight",
        hovertemplate="%{x}: %{y:.3g} % by weight<extra></extra>",
    )
