"""What a notebook shows beside figures: tables that JupyterLab draws in the colours of its theme, and a run in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from labkit.device import available_devices
from labkit.experiments import experiment, experiments

if TYPE_CHECKING:
    from labkit.lab import Run


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of text, the first of them the heading. A cell may have several lines.

    numbers  whether the columns after the first hold numbers, which stand to the right
    """

    rows: Sequence[Sequence[str]]
    numbers: bool = True

    def _repr_html_(self) -> str:
        head, *body = (self._html_row(row, "td" if place else "th") for place, row in enumerate(self.rows))
        return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"

    def __repr__(self) -> str:
        rows = [[cell.replace("\n", ", ") for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(self._text_row(row, widths).rstrip() for row in rows)

    def _html_row(self, row: Sequence[str], tag: str) -> str:
        cells = []
        for place, cell in enumerate(row):
            style = f"text-align: {'right' if self._to_the_right(place) else 'left'}; "
            style += "max-width: 24em" if place else "white-space: nowrap"
            words = escape(cell).replace("\n", "<br>")
            cells.append(f'<{tag} style="{style}">{words}</{tag}>')
        return f"<tr>{''.join(cells)}</tr>"

    def _text_row(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = zip(row, widths, strict=True)
        return "  ".join(
            cell.rjust(width) if self._to_the_right(place) else cell.ljust(width)
            for place, (cell, width) in enumerate(cells)
        )

    def _to_the_right(self, place: int) -> bool:
        return self.numbers and place > 0


def device_table() -> Table:
    """The devices that may be named here, and why one is not available."""
    rows = [
        (choice.name, choice.label, "yes" if choice.available else f"no: {choice.reason}")
        for choice in available_devices()
    ]
    return Table([("device", "what it is", "here"), *rows], numbers=False)


def experiment_table() -> Table:
    """The experiments, what each answers, and its named settings."""
    catalogue = [experiment(name) for name in experiments()]
    rows = [(each.name, each.question, ", ".join(each.presets)) for each in catalogue]
    return Table([("experiment", "what it answers", "presets"), *rows], numbers=False)


def conclusion(run: "Run") -> str:
    """What limits a run, how far it may be trusted, and its notes, a line each."""
    verdict = run.record.verdict
    lines = [run.summary.bottleneck] if run.summary is not None else []
    lines.append(f"{verdict.grade}: {'; '.join(verdict.reasons) or 'nothing speaks against these numbers'}")
    return "\n".join([*lines, *run.record.notes])


def ending(run: "Run") -> str:
    """Which run it was, how it ended, and where it lies."""
    place = "kept in memory only" if run.path is None else f"saved in {run.path.resolve()}"
    return f"{run.record.id} {run.record.status}, {place}"
