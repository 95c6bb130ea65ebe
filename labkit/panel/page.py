"""What stands still below the panel: for a result, the table and the figures, each as a bundle that any notebook front end shows.

Plain figures, not widgets: they stay in the saved notebook, at some ten kilobytes each, and need no kernel to be seen again.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import plotly.graph_objects as go

from labkit import figures
from labkit.figures.colours import GRADE_COLOURS
from labkit.figures.shown import Shown
from labkit.metrics.verdict import WORST_FIRST, Grade
from labkit.notebook.show import Table
from labkit.panel.explain import explanations
from labkit.panel.state import Result
from labkit.report.table import side_by_side_table

REQUEST_SLOTS = ("latency over time", "batch sizes", "tenants")
"""Of runs that serve."""
VIEW_SLOTS = ("why", "critical path", "path drawn", "what if", "mistakes", "mistakes told")
SLOTS = (
    "words", "guess", "side by side", "throughput over time", "latency over time", "utilization", "timeline",
    "distribution", "batch sizes", "tenants", *VIEW_SLOTS,
)  # fmt: skip
"""The places below the panel, in order."""

PLOTLY = "application/vnd.plotly.v1+json"
EMPTY: dict[str, Any] = {"text/html": "", "text/plain": ""}

Bundle = dict[str, Any]


def runs_of(result: Result) -> list[Shown]:
    """A and B, as far as they are there. A part of a run that goes on is summarised here; an A that was not measured in turns
    with B is WEAK beside it."""
    b = result.b if result.b is not None else result.part.shown("B") if result.part is not None else None
    if b is not None and result.a is None:
        b = replace(b, label="this run")
    a = result.a
    if a is not None and b is not None and result.compared is None and a.measured and b.measured and a.grade != "INVALID":
        a = replace(a, grade="WEAK")
    return [run for run in (a, b) if run is not None]


def page(result: Result, runs: Sequence[Shown]) -> Iterator[tuple[str, Bundle]]:
    """The slots that a result fills, one after another as they are drawn; while it runs, only what is cheap."""
    if not runs:
        return
    yield "words", _words_bundle(result, runs)
    if result.guess is not None:
        yield "guess", figure_bundle(figures.guess(result.guess, result.predicted, result.measured))
    goes_on = result.run is None and result.part is not None
    if not goes_on or len(runs) == 2:  # four plots: dear beside a run, and alone they say what the table says
        yield "side by side", figure_bundle(figures.side_by_side(runs))
    yield "throughput over time", figure_bundle(figures.throughput_over_time(runs))
    serving = any(run.summary.requests is not None for run in runs)
    if serving:
        yield "latency over time", figure_bundle(figures.latency_over_time(runs))
    if goes_on:
        return
    yield "utilization", figure_bundle(figures.utilization(runs))
    both = len(runs) == 2
    yield "timeline", figure_bundle(figures.two_timelines(*runs) if both else figures.timeline(runs[0]))
    yield "distribution", figure_bundle(figures.latency_distribution(runs) if serving else figures.distribution(runs))
    if serving:
        yield "batch sizes", figure_bundle(figures.batch_sizes(runs))
    if any(run.summary.requests is not None and run.summary.requests.fairness is not None for run in runs):
        yield "tenants", figure_bundle(figures.tenants(runs))
    for slot, what in explanations(result.views, runs[-1], result.first_step):
        yield slot, _bundle(what)


def _bundle(what: go.Figure | Table | str) -> Bundle:
    if isinstance(what, go.Figure):
        return figure_bundle(what)
    html = f"<p>{escape(what)}</p>" if isinstance(what, str) else what._repr_html_()
    return {"text/html": html, "text/plain": what if isinstance(what, str) else repr(what)}


def figure_bundle(figure: go.Figure) -> Bundle:
    """A plotly figure as JupyterLab's renderer takes it."""
    title = (figure.layout.title.text or "figure").partition("<br>")[0]
    return {PLOTLY: json.loads(figure.to_json()), "text/plain": title.replace("<b>", "").replace("</b>", "")}


def words(result: Result, runs: Sequence[Shown]) -> list[str]:
    """What is to be said: how B compares with A, what limits each, how far the run may be trusted, where it lies."""
    lines = []
    if "INVALID" in [run.grade for run in runs]:
        lines.append("No result: the verdict below says why.")
    if result.compared is not None:
        lines.append(f"{result.compared.comparison.sentence}, in {result.compared.comparison.rounds} rounds in turns.")
    elif len(runs) == 2:
        lines.append(_not_in_turns(runs))
    lines += [f"{run.label}, {_how(run)}: {run.summary.bottleneck}" for run in runs]
    if result.run is not None:
        record, verdict = result.run.record, result.verdict or result.run.record.verdict
        reasons = "; ".join(verdict.reasons) or "nothing speaks against these numbers"
        place = "kept in memory only" if result.run.path is None else f"saved in {result.run.path}"
        if result.compared is not None:
            of_a = result.compared.a.record.verdict
            lines.append(f"A, {of_a.grade}: {'; '.join(of_a.reasons) or 'nothing speaks against these numbers'}.")
        lines += [f"{runs[-1].label}, {verdict.grade}: {reasons}.", f"Run {record.id}, {place}."]
        lines += [f"Note: {note}." for note in record.notes]
        lines += [str(alert["words"]) for alert in record.alerts]
    elif result.part is not None:
        lines.append("It is still running: these numbers are of the steps since the last toggle.")
    return lines


def _words_bundle(result: Result, runs: Sequence[Shown]) -> Bundle:
    grades = [run.grade for run in runs]
    table = Table(side_by_side_table(runs, grades=[grade or "–" for grade in grades] if any(grades) else None))
    lines = words(result, runs)
    first, *others = (escape(line) for line in lines)
    worst = next((grade for grade in WORST_FIRST if grade in grades), None)
    html = f'<p style="margin: 0 0 8px">{_badge(worst)}<b>{first}</b><br>{"<br>".join(others)}</p>'
    return {"text/html": html + table._repr_html_(), "text/plain": "\n".join([*lines, "", repr(table)])}


def _badge(grade: Grade | None) -> str:
    """A verdict as a pill in its colour, as in the report."""
    if grade is None:
        return ""
    look = f"background: {GRADE_COLOURS[grade]}; color: #fff; border-radius: 9px; padding: 1px 8px; margin-right: 8px"
    return f'<span style="{look}; font-size: 11px; font-weight: 600">{grade}</span>'


def _not_in_turns(runs: Sequence[Shown]) -> str:
    kinds = {run.measured for run in runs}
    if len(kinds) == 2:
        return "One was measured and the other is a prediction: look at them side by side, but do not take their ratio."
    if not runs[0].measured:
        return "Both are predictions."
    return "A and B were not measured in turns, so the machine's mood is in the difference: Measure A/B gives the answer."


def _how(run: Shown) -> str:
    return f"measured on {run.device}" if run.measured else f"predicted, {run.device}"
