"""The side-by-side table: a row a metric, a column a run, for a page and for a terminal.

Whether a column was measured or predicted stands in its heading. Where a prediction is of a run that was measured on the
same machine, a column with its error follows.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import NamedTuple

from labkit.figures.colours import GRADE_COLOURS, lane_order
from labkit.figures.numbers import error_text, grouped, metric_text, relative_error
from labkit.figures.shown import Shown, measured_run_of
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary
from labkit.units import ABSENT

TIMES = ("mean", "p50", "p95", "p99")

_NARROWEST = 40
_LONGEST_NUMBER = 20
_GAP = "  "
_ERROR = "error\n"

_Column = Sequence[Sequence[str]]
"""The cells of a column, each as its lines."""


class _Row(NamedTuple):
    """One row: its name, and how its metric is read from a run."""

    name: str
    read: Callable[[Shown], Metric | None]


def side_by_side_table(
    runs: Sequence[Shown], predicts: Mapping[int, int] | None = None, grades: Sequence[str] | None = None
) -> list[list[str]]:
    """Rows of text, the heading first: metric, a column a run, an error column after each prediction that has one.

    grades    the verdict of each run, for a row of its own; runs without one come last
    predicts  place of a prediction → place of the measured run that it predicts; `Shown.predicts` says the same
    """
    runs = _with_predictions(runs, predicts or {})
    owners = [measured_run_of(run, runs) for run in runs]
    heading = ["metric"]
    for run, owner in zip(runs, owners, strict=True):
        heading += [_heading(run), f"{_ERROR}of {run.label}"] if owner else [_heading(run)]
    rows = [[row.name, *_cells(row, runs, owners)] for row in _metric_rows(runs)]
    verdicts = [["verdict", *_spread(_padded(grades, len(runs)), owners)]] if grades else []
    words = [
        ("bottleneck", [run.summary.bottleneck for run in runs]),
        ("steps in all", [grouped(run.summary.steps) for run in runs]),
        *_answers(runs),
        ("rows not kept", [grouped(run.summary.dropped) for run in runs]),
    ]
    return [
        heading,
        *verdicts,
        *rows,
        *([name, *_spread(cells, owners)] for name, cells in words if _worth_a_row(name, cells)),
    ]


def as_text(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The table for a terminal: aligned, its columns in blocks that fit into `width` characters.

    width  the terminal's where it is not given, 100 where there is none
    """
    width = max(width or shutil.get_terminal_size((100, 24)).columns, _NARROWEST)
    columns = [_wrapped(column) for column in zip(*rows, strict=True)]
    groups: list[list[_Column]] = []
    for heading, column in zip(rows[0][1:], columns[1:], strict=True):
        if heading.startswith(_ERROR) and groups:
            groups[-1].append(column)
        else:
            groups.append([column])
    blocks = [[columns[0]]]
    for group in groups:
        if len(blocks[-1]) > 1 and _width([*blocks[-1], *group]) > width:
            blocks.append([columns[0]])
        blocks[-1] += group
    return "\n\n".join(_block(block) for block in blocks)


def as_html(rows: Sequence[Sequence[str]]) -> str:
    """The table as HTML; every cell is escaped."""
    head, *body = rows
    heads = "".join(map(_html_heading, head))
    lines = [
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(map(_html_cell, row[1:]))}</tr>' for row in body
    ]
    return f'<table class="numbers"><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _with_predictions(runs: Sequence[Shown], predicts: Mapping[int, int]) -> list[Shown]:
    named = list(runs)
    for prediction, measured in predicts.items():
        named[prediction] = replace(named[prediction], predicts=named[measured].label)
    return named


def _heading(run: Shown) -> str:
    """`B`, and below it what it is: `measured on CPU threads`."""
    return f"{run.label}\n{f'measured on {run.device}' if run.measured else f'predicted, {run.device}'}"


def _metric_rows(runs: Sequence[Shown]) -> list[_Row]:
    lanes = sorted({lane for run in runs for lane in run.summary.utilization}, key=lane_order)
    stepping = [run for run in runs if run.summary.requests is None]  # where requests are served, theirs are the times that count
    times = [name for name in TIMES if any(name in run.summary.step_interval for run in stepping)]
    ages = [name for name in TIMES if any(name in run.summary.batch_age for run in stepping)]
    return [
        _Row("throughput", lambda run: run.summary.throughput),
        *(_Row(name, lambda run, name=name: _of_requests(run.summary).get(name)) for name in _request_metrics(runs)),
        *(_Row(f"step interval {name}", lambda run, name=name: run.summary.step_interval.get(name)) for name in times),
        *(_Row(f"batch age {name}", lambda run, name=name: run.summary.batch_age.get(name)) for name in ages),
        *(_Row(f"busy: {lane}", lambda run, lane=lane: run.summary.utilization.get(lane)) for lane in lanes),
        _Row("overlap", lambda run: run.summary.overlap),
        _Row("bound efficiency", lambda run: run.summary.bound_efficiency),
        *(_Row(name, lambda run, name=name: run.energy.get(name)) for name in _energy_metrics(runs)),
    ]


def _energy_metrics(runs: Sequence[Shown]) -> list[str]:
    """Energy and cost per item, as far as any of the runs knows them: an absence is told by `labkit show`."""
    return list(dict.fromkeys(name for run in runs for name, metric in run.energy.items() if metric.value is not None))


def _of_requests(summary: Summary) -> Mapping[str, Metric]:
    return {} if summary.requests is None else summary.requests.metrics()


def _request_metrics(runs: Sequence[Shown]) -> list[str]:
    """The metrics of requests of any of the runs; not the mean of times: it hides the tail."""
    names = dict.fromkeys(name for run in runs for name in _of_requests(run.summary))
    return [name for name in names if not name.endswith(" mean")]


def _cells(row: _Row, runs: Sequence[Shown], owners: Sequence[Shown | None]) -> list[str]:
    cells = []
    for run, owner in zip(runs, owners, strict=True):
        metric = row.read(run)
        cells.append(metric_text(metric))
        if owner:
            error = relative_error(metric, row.read(owner)) if _has_scale(metric) else None
            cells.append(ABSENT if error is None else error_text(error))
    return cells


def _answers(runs: Sequence[Shown]) -> list[tuple[str, list[str]]]:
    """How many requests were sent, and what became of them, where any of the runs served some."""
    served = [run.summary.requests for run in runs]
    if not any(served):
        return []
    kinds = dict.fromkeys(kind for each in served if each for kind, count in each.answers.items() if count)
    rows = [("requests sent", [ABSENT if each is None else grouped(each.sent) for each in served])]
    return rows + [(f"… {kind}", [ABSENT if each is None else grouped(each.answers.get(kind, 0)) for each in served]) for kind in kinds]


def _has_scale(metric: Metric | None) -> bool:
    """Shares near zero have no meaningful relative error; rates and times do."""
    return metric is not None and metric.unit != "share"


def _spread(cells: Sequence[str], owners: Sequence[Shown | None]) -> list[str]:
    """Words under their runs, nothing under the error columns."""
    return [
        part for cell, owner in zip(cells, owners, strict=True) for part in ([cell, ""] if owner else [cell])
    ]


def _padded(grades: Sequence[str], length: int) -> list[str]:
    return [*grades[:length], *[ABSENT] * (length - len(grades))]


def _worth_a_row(name: str, cells: Sequence[str]) -> bool:
    return name != "rows not kept" or any(cell != "0" for cell in cells)


def _html_cell(cell: str) -> str:
    """A cell: a verdict in its colour, words smaller than numbers."""
    if cell in GRADE_COLOURS:
        return f'<td><span class="badge {cell}">{cell}</span></td>'
    return (
        f'<td class="words">{escape(cell)}</td>'
        if len(cell) > _LONGEST_NUMBER
        else f"<td>{escape(cell)}</td>"
    )


def _html_heading(cell: str) -> str:
    """A heading: the name of the run, and smaller what it is."""
    name, _, more = cell.partition("\n")
    return f'<th scope="col">{escape(name)}{f"<small>{escape(more)}</small>" if more else ""}</th>'


def _wrapped(column: Sequence[str], width: int = 22) -> list[list[str]]:
    """Each cell as lines of at most `width` characters, broken between words."""
    return [[line for part in cell.split("\n") for line in _wrap(part, width)] for cell in column]


def _wrap(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        fits = len(lines[-1]) + 1 + len(word) <= width
        lines[-1:] = [f"{lines[-1]} {word}".strip()] if fits or not lines[-1] else [lines[-1], word]
    return lines


def _width(columns: Sequence[_Column]) -> int:
    return sum(_column_width(column) for column in columns) + len(_GAP) * (len(columns) - 1)


def _column_width(column: _Column) -> int:
    return max(len(line) for cell in column for line in cell)


def _block(columns: Sequence[_Column]) -> str:
    widths = [_column_width(column) for column in columns]
    rows = ["\n".join(_text_lines(row, widths)) for row in zip(*columns, strict=True)]
    rule = _GAP.join("─" * width for width in widths)
    return "\n".join([rows[0], rule, *rows[1:]])


def _text_lines(row: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """The lines of one row: the first column to the left, numbers to the right."""
    lines = []
    for place in range(max(map(len, row))):
        parts = [cell[place] if place < len(cell) else "" for cell in row]
        aligned = [
            parts[0].ljust(widths[0]),
            *(part.rjust(w) for part, w in zip(parts[1:], widths[1:], strict=True)),
        ]
        lines.append(_GAP.join(aligned).rstrip())
    return lines
