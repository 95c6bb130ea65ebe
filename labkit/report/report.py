"""The report: some runs as one HTML file that needs nothing else, no network and no server.

plotly.js is in it once; the figures are data that it draws when the page is opened, in the colours of a light or a
dark page. Everything that a person wrote (labels, knobs, notes) is escaped.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from labkit.errors import StoreError
from labkit.figures import (
    Shown,
    distribution,
    prediction,
    side_by_side,
    throughput_over_time,
    timeline,
    two_timelines,
    utilization,
)
from labkit.figures.shown import absences
from labkit.figures.theme import template
from labkit.figures.view import default_view
from labkit.metrics.window import completions
from labkit.report.headline import headline
from labkit.report.legend import short_legend
from labkit.report.sections import differing_knobs, run_sections
from labkit.report.table import as_html, side_by_side_table
from labkit.report.views import busiest_view
from labkit.runner.record import RunRecord


def write_report(
    path: Path,
    title: str,
    runs: Sequence[Shown],
    records: Sequence[RunRecord],
    comparison: str | None = None,
    table: Sequence[Sequence[str]] | None = None,
) -> Path:
    """Write the page and return its path. An older page there is replaced, once the new one is whole.

    records     those of `runs`, in the same order, and then any that left nothing to show (failed runs)
    comparison  how B compares with A, in words; the headline, unless a run is INVALID
    table       rows as `side_by_side_table` gives them; made of `runs` where it is not given

    Raises StoreError where it cannot be written.
    """
    page = report_html(title, runs, records, comparison, table)
    unfinished = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(page, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"the report cannot be written to {path}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def report_html(
    title: str,
    runs: Sequence[Shown],
    records: Sequence[RunRecord],
    comparison: str | None = None,
    table: Sequence[Sequence[str]] | None = None,
) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("labkit", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    grades = [record.verdict.grade for record in records]
    rows = table if table is not None else side_by_side_table(runs, grades=grades) if runs else None
    knobs = differing_knobs(runs, records)
    return environment.get_template("template.html").render(
        title=title,
        headline=headline(runs, records, comparison),
        table=Markup(as_html(rows)) if rows else None,
        absences=absences(runs),
        knobs=Markup(as_html(knobs)) if knobs else None,
        figures=[(name, _data(figure)) for name, figure in report_figures(runs).items()],
        templates=_script_json({theme: template(theme).to_plotly_json() for theme in ("light", "dark")}),
        sections=run_sections(runs, records),
        plotlyjs=Markup(get_plotlyjs()),
    )


def report_figures(runs: Sequence[Shown]) -> dict[str, go.Figure]:
    """The figures of the page by name, in order: all runs in the first and the last, measured ones in between. None that would be empty."""
    if not runs:
        return {}
    main = [run for run in runs if run.measured] or list(runs)
    traced = [run for run in main if run.trace is not None]
    figures = {"side by side": side_by_side(runs, "light")} if any(_has_rates(run) for run in runs) else {}
    if len(traced) == 2:
        figures["timelines"] = short_legend(two_timelines(*traced, theme="light"))
    else:
        for run in traced:
            figures |= _timelines(run)
    moving = [run for run in traced if _is_moving(run)]
    if moving:
        figures["throughput over time"] = throughput_over_time(moving, "light")
        figures["distribution"] = distribution(moving, "light")
    if any(metric.value is not None for run in main for metric in run.summary.utilization.values()):
        figures["utilization"] = utilization(main, "light")
    if len(main) < len(runs):
        figures["prediction"] = prediction(runs, "light")
    return figures


def _timelines(run: Shown) -> dict[str, go.Figure]:
    """The timeline of a run, and of its busiest part where the whole is too long to see its ops."""
    figures = {f"timeline of {run.label}": short_legend(timeline(run, theme="light"))}
    closer = busiest_view(run.trace, *default_view(run)) if run.trace is not None else None
    if closer is not None:
        zoomed = short_legend(timeline(run, *closer, theme="light"))
        figures[f"timeline of {run.label}, its busiest part"] = zoomed.update_layout(title_text=zoomed.layout.title.text.replace("Timeline", "Timeline, the busiest hundredth", 1))
    return figures


def _has_rates(run: Shown) -> bool:
    """Whether anything but the lanes' busy shares can be set side by side."""
    times = (*run.summary.step_interval.values(), *run.summary.batch_age.values())
    return run.summary.requests is not None or any(metric.value is not None for metric in (run.summary.throughput, *times))


def _is_moving(run: Shown) -> bool:
    """Whether it has two intervals between completions or more: one is no course of time and no distribution."""
    return run.trace is not None and len(completions(run.trace)) > 2


def _data(figure: go.Figure) -> dict[str, Any]:
    """A figure for the page: its height, and its JSON without the template, which the page chooses."""
    plain = json.loads(figure.to_json())
    del plain["layout"]["template"]
    return {"height": figure.layout.height, "json": _script_json(plain)}


def _script_json(value: Any) -> Markup:
    """Strict JSON that is safe inside a script element."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
