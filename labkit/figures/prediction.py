"""Prediction beside measurement: what the simulated device said, what the real one did, and the error between."""

from collections.abc import Callable, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from labkit.figures.look import Look, looks
from labkit.figures.numbers import error_text, metric_text, relative_error, time_unit
from labkit.figures.shown import Shown, measured_run_of
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary

Reader = Callable[[Summary], Metric | None]

COMPARED: dict[str, Reader] = {
    "Throughput": lambda summary: summary.throughput,
    "Step interval, median": lambda summary: summary.step_interval.get("p50"),
    "Batch age, median": lambda summary: summary.batch_age.get("p50"),
}

_ROW_PX = 44


def prediction(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """Three metrics, a bar a run: measured solid, predicted hatched. The error stands on a prediction only where the
    same machine was measured; what-if on another machine has none."""
    if all(run.measured for run in runs):
        return say(
            dress(go.Figure(), "Predicted and measured", runs, theme, height=160), "nothing was predicted"
        )
    figure = make_subplots(
        1, len(COMPARED), subplot_titles=list(COMPARED), shared_yaxes=True, horizontal_spacing=0.05
    )
    for column, read in enumerate(COMPARED.values(), start=1):
        _add_metric(figure, column, read, runs)
    words = "error: predicted ÷ measured − 1, where the same machine was measured"
    dress(figure, "Predicted and measured", runs, theme, height=_ROW_PX * len(runs) + 110, words=words)
    names = [plain(run.name) for run in runs]
    figure.update_yaxes(
        tickvals=list(range(len(runs))), range=[len(runs) - 0.5, -0.5], showgrid=False, zeroline=False
    )
    figure.update_yaxes(ticktext=names, col=1)
    return figure.update_layout(showlegend=False, bargap=0.3, barmode="overlay")


def _add_metric(figure: go.Figure, column: int, read: Reader, runs: Sequence[Shown]) -> None:
    metrics = [read(run.summary) for run in runs]
    known = [metric for metric in metrics if metric is not None and metric.value is not None]
    largest = max((metric.value or 0 for metric in known), default=0)
    unit_name, divisor = (known[0].unit, 1) if known else ("", 1)
    if unit_name == "ns":
        divisor, unit_name = time_unit(largest)
    for place, (run, look, metric) in enumerate(zip(runs, looks(runs), metrics, strict=True)):
        value = None if metric is None or metric.value is None else metric.value / divisor
        figure.add_trace(_bar(run, look, place, value, _words(run, runs, read)), 1, column)
    room = 1.75 * largest / divisor or 1
    figure.update_xaxes(title_text=unit_name, range=[0, room], nticks=5, row=1, col=column)


def _bar(run: Shown, look: Look, place: int, value: float | None, words: str) -> go.Bar:
    return go.Bar(
        orientation="h",
        y=[place],
        x=[value],
        name=plain(run.name),
        showlegend=False,
        marker=look.marker(look.colour),
        text=[words],
        textposition="outside",
        constraintext="none",
        cliponaxis=False,
        textfont={"size": 11},
        hovertemplate=f"{plain(run.name)}<br>{words.replace('<br>', ', ')}<extra></extra>",
    )


def _words(run: Shown, runs: Sequence[Shown], read: Reader) -> str:
    """The value, and below it the error where there is one to tell."""
    metric = read(run.summary)
    measured = measured_run_of(run, runs)
    error = relative_error(metric, read(measured.summary)) if measured else None
    return metric_text(metric) + (f"<br>{error_text(error)} error" if error is not None else "")
