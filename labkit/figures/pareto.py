"""Throughput against latency: a point for each run of a sweep, and the front of those that no other run beats in both."""

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from labkit.figures.colours import GRADE_COLOURS, run_colour, with_alpha
from labkit.figures.numbers import TimeUnit, time_unit
from labkit.figures.sweep import cell_text, column_words, device_words, lines_below
from labkit.figures.theme import Theme, dress_with, plain, say
from labkit.metrics.pareto import Better, front

if TYPE_CHECKING:
    import pandas as pd

_HIGHER = ("throughput", "goodput", "batch_size")
_NAMED = 8
_NO_UNIT = TimeUnit(1, "")


def pareto(frame: "pd.DataFrame", x: str = "throughput", y: str = "latency_p99_ns", theme: Theme = "either") -> go.Figure:
    """`y` against `x` of the runs in a table as `labkit.runs` or `Swept.table` gives it, and the Pareto front of each device.

    Points of the front are joined and numbered, from the best `x` on; the knobs that differ are told below the title. Rates are better when higher, everything else
    when lower. Runs that are INVALID are crosses and on no front; measured and simulated ones never share one. Raises ValueError for a
    column that is not there.
    """
    for column in (x, y):
        if column not in frame.columns:
            raise ValueError(f"there is no column {column!r} to draw; allowed: {', '.join(map(str, frame.columns))}")
    drawn = frame[frame[x].notna() & frame[y].notna()]
    units = [time_unit(float(drawn[column].median())) if column.endswith("_ns") and len(drawn) else _NO_UNIT for column in (x, y)]
    figure, differing, front_lines = go.Figure(), differing_knobs(drawn), list[str]()
    for place, ((label, measured), group) in enumerate(drawn.groupby(["device_label", "measured"], sort=False)):
        name, colour = device_words(str(label), bool(measured)), run_colour(1 + place)
        words = [", ".join(f"{knob.removeprefix('knob.')} {_value(row[knob])}" for knob in differing) for _, row in group.iterrows()]
        group = group.assign(words=words)
        _add_group(figure, group, (x, y), units, name, colour, bool(measured))
        front_lines.append(_front_line(on_front(group, x, y), (x, y)))
    joined = "joined: no other run is better in one without being worse in the other"
    lines = [*lines_below(frame, drawn, y), joined, *(filter(None, front_lines) if differing else [])]
    dress_with(figure, f"{column_words(y)} against {column_words(x).partition(',')[0]}".capitalize(), lines, theme, height=380)
    for update, column, unit in ((figure.update_xaxes, x, units[0]), (figure.update_yaxes, y, units[1])):
        wide = len(drawn) > 0 and float(drawn[column].min()) > 0 and float(drawn[column].max() / drawn[column].min()) > 20
        scale = {"type": "log", "dtick": "D2"} if wide else {"rangemode": "tozero"}
        update(title_text=plain(column_words(column)) + (f" ({unit.name})" if unit.name else ""), **scale)
    return figure if len(drawn) else say(figure, "no run has both numbers")


def on_front(frame: "pd.DataFrame", x: str = "throughput", y: str = "latency_p99_ns") -> "pd.DataFrame":
    """The rows of one device's runs that are on the front, from the best `x` to the best `y`; INVALID ones are on none."""
    sound = frame[frame[x].notna() & frame[y].notna() & (frame["grade"] != "INVALID")]
    return sound.iloc[front(sound[x].tolist(), sound[y].tolist(), _better(x), _better(y))]


def differing_knobs(frame: "pd.DataFrame") -> list[str]:
    """The columns of knobs that do not have one and the same value in all rows."""
    return [name for name in frame.columns if name.startswith("knob.") and frame[name].map(repr).nunique() > 1]


def _add_group(
    figure: go.Figure, group: "pd.DataFrame", columns: tuple[str, str], units: list[TimeUnit], name: str, colour: str, measured: bool
) -> None:
    """One device's runs: the others pale, the front joined, what is INVALID as crosses."""
    best = on_front(group, *columns)
    invalid = group["grade"] == "INVALID"
    others = group[~invalid & ~group["id"].isin(best["id"])]
    shape = "circle" if measured else "diamond"
    if len(others):
        marker = {"color": with_alpha(colour, 0.35), "size": 8, "symbol": shape}
        figure.add_trace(_points(others, columns, units).update(mode="markers", marker=marker, name=plain(f"{name}: others")))
    if len(best):
        symbols = [f"{shape}-open" if grade == "WEAK" else shape for grade in best["grade"]]
        line = {"color": colour, "width": 2, "dash": "solid" if measured else "dash", "shape": "linear"}
        marker = {"color": colour, "size": 10, "symbol": symbols, "line": {"width": 2, "color": colour}}
        drawn = _points(best, columns, units).update(mode="lines+markers+text", line=line, marker=marker, name=plain(f"{name}: Pareto front"))
        places = _places(best, columns)
        texts = [str(place) if place not in places[:row] else "" for row, place in enumerate(places)]
        figure.add_trace(drawn.update(text=texts, textposition="top center"))
    if invalid.any():
        marker = {"color": GRADE_COLOURS["INVALID"], "size": 9, "symbol": "x-thin-open", "line": {"width": 2}}
        figure.add_trace(_points(group[invalid], columns, units).update(mode="markers", marker=marker, name=plain(f"{name}: INVALID")))


def _places(best: "pd.DataFrame", columns: tuple[str, str]) -> list[int]:
    """The number of each row's place on the front, from 1 on; runs with equal numbers share one."""
    pairs = list(zip(*(best[column].tolist() for column in columns), strict=True))
    order = list(dict.fromkeys(pairs))
    return [1 + order.index(pair) for pair in pairs]


def _front_line(best: "pd.DataFrame", columns: tuple[str, str]) -> str:
    """`1: rate 1000, max_batch 16; 2: … and 2 more alike`; the first few where there are many."""
    places, words = _places(best, columns), best["words"].tolist()
    named = []
    for place in dict.fromkeys(places):
        alike = places.count(place) - 1
        named.append(f"{place}: {words[places.index(place)]}" + (f" and {alike} more alike" if alike else ""))
    return "; ".join(named[:_NAMED]) + (f"; … {len(named) - _NAMED} more" if len(named) > _NAMED else "")


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else cell_text(value)


def _points(group: "pd.DataFrame", columns: tuple[str, str], units: list[TimeUnit]) -> go.Scatter:
    x, y = ([float(value) / unit.ns for value in group[column]] for column, unit in zip(columns, units, strict=True))
    said = [[plain(words), str(run), str(grade)] for words, run, grade in zip(group["words"], group["id"], group["grade"], strict=True)]
    hover = f"%{{x:.4g}} {units[0].name}, %{{y:.4g}} {units[1].name}<br>%{{customdata[0]}}<br>%{{customdata[1]}}, %{{customdata[2]}}<extra></extra>"
    return go.Scatter(x=x, y=y, customdata=said, hovertemplate=hover)


def _better(column: str) -> Better:
    return "higher" if column in _HIGHER or column.startswith("busy.") else "lower"
