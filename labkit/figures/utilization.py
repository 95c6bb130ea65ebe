"""What each lane did with its time: busy, and waiting by cause. The parts of a bar make 100 %."""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from labkit.figures.colours import ink_on, lane_colour, lane_order
from labkit.figures.look import Look, looks
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain
from labkit.schedule import ROLES
from labkit.units import format_percent

SMALL = 0.01

_GREY = "#808080"
_ROUNDING = 1e-9
_WAIT_STRENGTHS = (0.46, 0.34, 0.24, 0.4, 0.29, 0.52)
_ROOM_FOR_WORDS, _ROOM_FOR_NUMBER = 0.13, 0.07
_OTHER = "waiting for several things, each under 1 %"


def utilization(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """A bar for each lane of each run: its busy share in the lane's colour, then what it waited for, pale."""
    figure = go.Figure()
    rows = [_Row(run, look, name) for run, look, name in zip(runs, looks(runs), row_names(runs), strict=True)]
    for row in rows:
        if row.lanes:
            figure.add_trace(_busy(row))
    causes = list(
        dict.fromkeys(cause for row in rows for lane in row.lanes for cause in waiting(row.run, lane))
    )
    named: set[str] = set()
    for cause, strength in zip(causes, _strengths(causes), strict=True):
        for row in rows:
            if any(cause in waiting(row.run, lane) for lane in row.lanes):
                figure.add_trace(_waiting(row, cause, strength).update(showlegend=cause not in named))
                named.add(cause)
    bars = sum(len(row.lanes) for row in rows)
    dress(figure, "Where the time of each lane went", runs, theme, height=120 + 26 * max(bars, 3))
    figure.update_layout(barmode="stack", bargap=0.18)
    figure.update_xaxes(title_text="share of wall time × width, %", range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    return figure


def waiting(run: Shown, lane: str) -> dict[str, float]:
    """The waiting shares of a lane by cause, largest first; causes below 1 % are put together."""
    causes = run.summary.waiting.get(lane, {})
    large = {
        cause: share for cause, share in sorted(causes.items(), key=lambda pair: -pair[1]) if share >= SMALL
    }
    rest = sum(causes.values()) - sum(large.values())
    return {**large, **({_OTHER: rest} if rest > _ROUNDING else {})}


def row_names(runs: Sequence[Shown]) -> list[str]:
    """A name for the bars of each run; no two are the same, else their bars would be put end to end."""
    names = [run.label if run.measured else f"{run.label}, simulated" for run in runs]
    names = [run.name if names.count(name) > 1 else name for run, name in zip(runs, names, strict=True)]
    return [f"{name} ({place + 1})" if names.count(name) > 1 else name for place, name in enumerate(names)]


class _Row(NamedTuple):
    """The bars of one run."""

    run: Shown
    look: Look
    name: str

    @property
    def lanes(self) -> list[str]:
        """The lanes whose busy share is known."""
        known = [lane for lane, metric in self.run.summary.utilization.items() if metric.value is not None]
        return sorted(known, key=lane_order)


def _busy(row: _Row) -> go.Bar:
    shares = [row.run.summary.utilization[lane].value or 0.0 for lane in row.lanes]
    colours = [lane_colour(lane) for lane in row.lanes]
    bar = _bar(row, row.lanes, shares, "busy", row.look.marker(colours))
    if row.run.measured:
        bar.insidetextfont = {"color": [ink_on(colour) for colour in colours], "shadow": "none"}
    return bar


def _waiting(row: _Row, cause: str, strength: float) -> go.Bar:
    lanes = [lane for lane in row.lanes if cause in waiting(row.run, lane)]
    shares = [waiting(row.run, lane)[cause] for lane in lanes]
    return _bar(row, lanes, shares, cause, row.look.marker(_cause_colour(cause), strength))


def _bar(row: _Row, lanes: Sequence[str], shares: Sequence[float], name: str, marker: dict) -> go.Bar:
    """The parts of one kind; the hard space keeps the name of the run clear of its bar."""
    return go.Bar(
        orientation="h",
        y=[list(lanes), [f"{plain(row.name)}\u00a0"] * len(lanes)],
        x=[100 * share for share in shares],
        name=plain(name),
        legendgroup=name,
        showlegend=False,
        marker=marker,
        text=[_words_inside(name, share) for share in shares],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        customdata=[format_percent(share) for share in shares],
        hovertemplate=f"{plain(row.run.name)}<br>%{{y}}<br>{plain(name)}: %{{customdata}}<extra></extra>",
    )


def _words_inside(name: str, share: float) -> str:
    """What is written on a part of a bar: nothing where it would not fit."""
    if name == "busy" and share >= _ROOM_FOR_WORDS:
        return f"busy {format_percent(share)}"
    return format_percent(share) if share >= _ROOM_FOR_NUMBER else ""


def _strengths(causes: Sequence[str]) -> list[float]:
    """How strongly each cause is drawn: those of one colour differ."""
    colours = [_cause_colour(cause) for cause in causes]
    places = [colours[:place].count(colour) for place, colour in enumerate(colours)]
    return [_WAIT_STRENGTHS[place % len(_WAIT_STRENGTHS)] for place in places]


def _cause_colour(cause: str) -> str:
    """The colour of the lane that the cause names, grey where it names none."""
    words = [word.strip(",:") for word in cause.split()]
    lane = next((word for word in words if word.rstrip("0123456789") in ROLES), None)
    return lane_colour(lane) if lane else _GREY
