"""The slices of a timeline as bars: one plotly trace for each op name, so that each has its colour and its legend."""

from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from labkit.figures.colours import GRADE_COLOURS, ink_on, lane_colour, role_of, shade, with_alpha
from labkit.figures.look import Look
from labkit.figures.shown import Shown
from labkit.figures.slices import Slices, Sort, units_of
from labkit.figures.theme import plain
from labkit.figures.view import View
from labkit.schedule import HOST
from labkit.trace.trace import Trace
from labkit.units import format_time

_HOSTS_OWN = {Sort.WAIT: "host waits", Sort.LAUNCH: "host submits", Sort.FAILED: "failed"}
_WAIT_STRENGTH = 0.22
_CHARACTER_SHARE = 1 / 140
_EDGE = "rgba(20,24,28,0.5)"
_EDGE_SHARE = 1 / 250


class Kind(NamedTuple):
    """What slices of one colour have in common."""

    role: str
    sort: Sort
    name: str


def op_names(trace: Trace) -> dict[str, list[str]]:
    """The op names of each role in alphabetical order, so that a name has one shade whatever ran first."""
    pairs = np.unique(np.stack([trace["lane"], trace["name"]]), axis=1).T
    names: dict[str, set[str]] = {}
    for lane, name in pairs.tolist():
        names.setdefault(role_of(trace.lanes[lane]), set()).add(trace.names[name])
    return {role: sorted(each) for role, each in names.items()}


def joined(a: dict[str, list[str]], b: dict[str, list[str]]) -> dict[str, list[str]]:
    """The op names of two runs, so that both are drawn in the same shades."""
    return {role: sorted({*a.get(role, ()), *b.get(role, ())}) for role in {*a, *b}}


def op_bars(
    run: Shown, trace: Trace, slices: Slices, view: View, names: dict[str, list[str]]
) -> list[go.Bar]:
    """The bars of a run; hatched where it was simulated.

    names  as `op_names` gives them: the place of a name is its shade
    """
    look = Look(1, run.measured)
    return [
        _bars(look, kind, trace, slices.where(places), view, names)
        for kind, places in _kinds(trace, slices).items()
    ]


def _bars(
    look: Look, kind: Kind, trace: Trace, part: Slices, view: View, names: dict[str, list[str]]
) -> go.Bar:
    colour = _colour(kind, names)
    waits = kind.sort is Sort.WAIT
    length_ns = part.end_ns - part.start_ns
    what = [plain(_words(trace.names[code], kind)) for code in part.name.tolist()]
    return go.Bar(
        orientation="h",
        base=view.x(part.start_ns),
        x=view.length(length_ns),
        y=part.row,
        width=0.4 if waits else 0.62,
        marker=_marker(look, colour, _WAIT_STRENGTH if waits else 1.0, length_ns, view),
        name=plain(kind.name),
        legendgroup="/".join([kind.role, kind.sort.name, kind.name]),
        showlegend=True,
        text=_fitting(what, length_ns, view) if look.measured and not waits else None,
        textposition="inside",
        insidetextanchor="middle",
        insidetextfont={"color": ink_on(colour), "size": 11, "shadow": "none"},
        textangle=0,
        customdata=_details(what, part),
        hovertemplate="%{customdata[0]}, %{customdata[1]}<br>%{customdata[2]} on %{y}<extra></extra>",
    )


def _marker(look: Look, colour: str, strength: float, length_ns: np.ndarray, view: View) -> dict[str, Any]:
    """Bars with a thin dark edge, so that neighbours can be told apart; a bar that is all edge keeps its colour."""
    marker = look.marker(colour, strength)
    if not look.measured:
        return marker
    wide = length_ns >= view.span_ns * _EDGE_SHARE
    return marker | {
        "line": {"width": 0.7, "color": np.where(wide, _EDGE, with_alpha(colour, strength)).tolist()}
    }


def _kinds(trace: Trace, slices: Slices) -> dict[Kind, np.ndarray]:
    units = units_of(trace)
    kinds: dict[Kind, list[int]] = {}
    columns = (slices.row.tolist(), slices.sort.tolist(), slices.name.tolist())
    for place, (row, sort, name) in enumerate(zip(*columns, strict=True)):
        sort = Sort(sort)
        op = Kind(role_of(units[row][0]), sort, trace.names[name])
        kinds.setdefault(Kind(str(HOST), sort, _HOSTS_OWN[sort]) if sort in _HOSTS_OWN else op, []).append(
            place
        )
    return {kind: np.array(places) for kind, places in kinds.items()}


def _colour(kind: Kind, names: dict[str, list[str]]) -> str:
    if kind.sort is Sort.FAILED:
        return GRADE_COLOURS["INVALID"]
    if kind.sort is Sort.OP:
        return shade(lane_colour(kind.role), names[kind.role].index(kind.name))
    return lane_colour(str(HOST))


def _words(op: str, kind: Kind) -> str:
    if kind.sort is Sort.WAIT:
        return "the host waits"
    return {Sort.OP: op, Sort.LAUNCH: f"submit {op}", Sort.FAILED: f"{op} failed"}[kind.sort]


def _fitting(what: list[str], length_ns: np.ndarray, view: View) -> list[str]:
    """The names that fit on their bars, "" for the others."""
    needed_ns = view.span_ns * _CHARACTER_SHARE
    return [
        words if ns >= needed_ns * (len(words) + 1) else ""
        for words, ns in zip(what, length_ns.tolist(), strict=True)
    ]


def _details(what: list[str], part: Slices) -> list[list[str]]:
    """What hovering tells beside the row: op, step, duration."""
    steps = [f"step {step}" if step >= 0 else "no step" for step in part.step.tolist()]
    times = [format_time(ns) for ns in (part.end_ns - part.start_ns).tolist()]
    return [list(each) for each in zip(what, steps, times, strict=True)]
