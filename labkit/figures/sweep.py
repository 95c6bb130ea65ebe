"""A sweep as a figure: one number of many runs over one knob, a line for each value of another."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import plotly.graph_objects as go

from labkit.figures.colours import run_colour
from labkit.figures.numbers import TimeUnit, time_unit
from labkit.figures.theme import Theme, dress_with, plain, say

if TYPE_CHECKING:
    import pandas as pd

_NOTHING = TimeUnit(1, "")
_TICKS_AT_MOST = 12
_LOG_BEYOND = 16
_RATES = {"throughput": "throughput, items/s", "goodput": "goodput, requests/s"}


class _Line(NamedTuple):
    """One line of the figure: its name, its colour, and whether its runs were measured."""

    name: str
    colour: str
    measured: bool


def sweep_figure(
    frame: "pd.DataFrame", x: str, y: str, colour: str | None = None, theme: Theme = "either"
) -> go.Figure:
    """`y` over `x` of the runs in a table as `labkit.store.runs` gives it.

    colour  a column: one line for each of its values
    Runs on different devices, and measured and simulated ones, are never joined by a line. WEAK points are open,
    INVALID ones are crosses outside the line. Runs without the number are left out, and counted below the title.
    Raises ValueError for a column that is not there.
    """
    for column in (x, y, *([colour] if colour else [])):
        if column not in frame.columns:
            raise ValueError(
                f"there is no column {column!r} to draw; allowed: {', '.join(map(str, frame.columns))}"
            )
    drawn = frame[frame[x].notna() & frame[y].notna()]
    unit = time_unit(float(drawn[y].max())) if y.endswith("_ns") and len(drawn) else _NOTHING
    figure = go.Figure()
    colours: dict[Hashable, str] = {}
    for key, group in drawn.groupby(
        [*([colour] if colour else []), "device_label", "measured"], sort=False, dropna=False
    ):
        paint = colours.setdefault(key[0], run_colour(1 + len(colours)))
        line = _Line(_name(colour, key), paint, bool(key[-1]))
        _add_line(figure, group.sort_values(x, kind="stable", key=_sortable), x, y, unit, line)
    title = f"{_bare(y)} over {_bare(x)}"
    dress_with(figure, title[:1].upper() + title[1:], lines_below(frame, drawn, y), theme, height=340)
    figure.update_xaxes(title_text=plain(column_words(x)), **_ticks(drawn[x]))
    figure.update_yaxes(
        title_text=plain(column_words(y)) + (f" ({unit.name})" if unit.name else ""), rangemode="tozero"
    )
    return figure if len(drawn) else say(figure, "no run has both numbers")


def column_words(column: str) -> str:
    """A column's name for people: `knob.prefetch` is prefetch, `step_interval_p50_ns` step interval p50."""
    if column in _RATES:
        return _RATES[column]
    return (
        column.removeprefix("knob.").removesuffix("_ns").replace("_", " ").replace("busy.", "busy share of ")
    )


def _bare(column: str) -> str:
    """A column's name without its unit."""
    return column_words(column).partition(",")[0]


def _add_line(figure: go.Figure, group: "pd.DataFrame", x: str, y: str, unit: TimeUnit, line: _Line) -> None:
    """The sound points joined, unless several runs share an x; the invalid ones as crosses."""
    invalid = group["grade"] == "INVALID"
    sound = group[~invalid]
    joined = len(sound) > 1 and not sound[x].map(str).duplicated().any()
    shape = "circle" if line.measured else "diamond"
    symbols = [shape if grade == "VALID" else f"{shape}-open" for grade in sound["grade"]]
    if len(sound):
        points = _points(sound, x, y, unit, line, symbols)
        style = {"color": line.colour, "width": 2, "dash": "solid" if line.measured else "dash"}
        figure.add_trace(points.update(mode="lines+markers" if joined else "markers", line=style))
    if invalid.any():
        crosses = _points(group[invalid], x, y, unit, line, ["x-thin-open"] * int(invalid.sum()))
        figure.add_trace(crosses.update(mode="markers", showlegend=not len(sound)))


def _points(
    group: "pd.DataFrame", x: str, y: str, unit: TimeUnit, line: _Line, symbols: list[str]
) -> go.Scatter:
    return go.Scatter(
        x=_cells(group[x]),
        y=[float(value) / unit.ns for value in group[y]],
        marker={
            "color": line.colour,
            "size": 9,
            "symbol": symbols,
            "line": {"width": 2, "color": line.colour},
        },
        name=plain(line.name),
        legendgroup=line.name,
        customdata=[
            [str(run_id), str(grade)] for run_id, grade in zip(group["id"], group["grade"], strict=True)
        ],
        hovertemplate="%{x}: %{y:.4g} " + unit.name + "<br>%{customdata[0]}, %{customdata[1]}<extra></extra>",
    )


def _name(colour: str | None, key: tuple[Any, ...]) -> str:
    words = device_words(str(key[-2]), bool(key[-1]))
    return f"{column_words(colour)} {cell_text(key[0])} · {words}" if colour else words


def device_words(label: str, measured: bool) -> str:
    """A device's label, which says "simulated" wherever it was."""
    return label if measured or "simulated" in label.lower() else f"simulated {label}"


def lines_below(frame: "pd.DataFrame", drawn: "pd.DataFrame", y: str) -> list[str]:
    """What the drawn runs ran on, and how many are not drawn."""
    devices = dict.fromkeys(zip(drawn["device_label"], drawn["measured"], strict=True))
    lines = [
        f"{'measured on' if measured else 'predicted,'} {device_words(label, measured)}"
        for label, measured in devices
    ]
    left_out = len(frame) - len(drawn)
    return lines + (
        [f"{left_out} of {len(frame)} runs have no {_bare(y)} and are not drawn"] if left_out else []
    )


def _ticks(column: "pd.Series") -> dict[str, Any]:
    """A tick for each value of a knob that takes few; a logarithmic axis where they span a wide range."""
    values = sorted({value for value in _cells(column) if not isinstance(value, str)})
    if len(values) == 0 or any(isinstance(value, str) for value in _cells(column)):
        return {"type": "category"}
    few = {"tickvals": values} if len(values) <= _TICKS_AT_MOST else {}
    return {"type": "log", **few} if values[0] > 0 and values[-1] / values[0] >= _LOG_BEYOND else few


def _cells(column: "pd.Series") -> list[Any]:
    return [value if _is_number(value) else cell_text(value) for value in column.tolist()]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell_text(value: Any) -> str:
    """A knob's value as people write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sortable(column: "pd.Series") -> "pd.Series":
    """Numbers sort by value, everything else by its text."""
    return column if all(_is_number(value) for value in column) else column.map(cell_text)
