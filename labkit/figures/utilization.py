"""What each lane did with its time: busy, and waiting by cause. The parts of a bar make 100 %."""

from collections.abc import Sequence

import plotly.graph_objects as go

from labkit.figures.colours import ink_on, lane_colour, lane_order
from labkit.figures.look import Look, looks
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain
from labkit.schedule import ROLES
from labkit.units import format_percent

SMALL = 0.01

_GREY = "#808080"
_WAIT_STRENGTHS = (0.42, 0.36, 0.3, 0.24)
_ROOM_FOR_WORDS, _ROOM_FOR_NUMBER = 0.13, 0.07
_OTHER = "waiting for several things, each under 1 %"


def utilization(runs: Sequence[Shown], theme: Theme = "either") -> go.Figure:
    """A bar for each lane of each run: its busy share in the lane's colour, then what it waited for, pale."""
    figure = go.Figure()
    rows = 0
    for run, look in zip(runs, looks(runs), strict=True):
        lanes = _lanes(run)
        rows += len(lanes)
        if lanes:
            figure.add_trace(_busy(run, look, lanes))
    causes = dict.fromkeys(cause for run in runs for lane in _lanes(run) for cause in waiting(run, lane))
    for place, cause in enumerate(causes):
        for order, (run, look) in enumerate(zip(runs, looks(runs), strict=True)):
            if any(cause in waiting(run, lane) for lane in _lanes(run)):
                figure.add_trace(
                    _waiting(run, look, cause, place, in_legend=order == _first_with(runs, cause))
                )
    dress(figure, "Where the time of each lane went", runs, theme, height=120 + 26 * max(rows, 3))
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
    return {**large, **({_OTHER: rest} if rest > 0 else {})}


def _lanes(run: Shown) -> list[str]:
    """The lanes whose busy share is known."""
    known = [lane for lane, metric in run.summary.utilization.items() if metric.value is not None]
    return sorted(known, key=lane_order)


def _busy(run: Shown, look: Look, lanes: Sequence[str]) -> go.Bar:
    shares = [run.summary.utilization[lane].value or 0.0 for lane in lanes]
    colours = [lane_colour(lane) for lane in lanes]
    bar = _bar(run, lanes, shares, "busy", look.marker(colours), in_legend=False)
    if run.measured:
        bar.insidetextfont = {"color": [ink_on(colour) for colour in colours], "shadow": "none"}
    return bar


def _waiting(run: Shown, look: Look, cause: str, place: int, in_legend: bool) -> go.Bar:
    lanes = [lane for lane in _lanes(run) if cause in waiting(run, lane)]
    marker = look.marker(_cause_colour(cause), _WAIT_STRENGTHS[place % len(_WAIT_STRENGTHS)])
    return _bar(run, lanes, [waiting(run, lane)[cause] for lane in lanes], cause, marker, in_legend)


def _bar(
    run: Shown, lanes: Sequence[str], shares: Sequence[float], name: str, marker: dict, in_legend: bool
) -> go.Bar:
    words = [format_percent(share) for share in shares]
    return go.Bar(
        orientation="h",
        y=[list(lanes), [_row_name(run)] * len(lanes)],
        x=[100 * share for share in shares],
        name=plain(name),
        legendgroup=name,
        showlegend=in_legend,
        marker=marker,
        text=[_words_inside(name, share) for share in shares],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        customdata=words,
        hovertemplate=f"{plain(run.name)}<br>%{{y}}<br>{plain(name)}: %{{customdata}}<extra></extra>",
    )


def _words_inside(name: str, share: float) -> str:
    """What is written on a part of a bar: nothing where it would not fit."""
    if name == "busy" and share >= _ROOM_FOR_WORDS:
        return f"busy {format_percent(share)}"
    return format_percent(share) if share >= _ROOM_FOR_NUMBER else ""


def _row_name(run: Shown) -> str:
    """Label, and "simulated" where it was; the hard space keeps it clear of the bar."""
    return plain(run.label if run.measured else f"{run.label}, simulated") + "\u00a0"


def _first_with(runs: Sequence[Shown], cause: str) -> int:
    return next(
        place for place, run in enumerate(runs) if any(cause in waiting(run, lane) for lane in _lanes(run))
    )


def _cause_colour(cause: str) -> str:
    """The colour of the lane that the cause names, grey where it names none."""
    words = [word.strip(",:") for word in cause.split()]
    lane = next((word for word in words if word.rstrip("0123456789") in ROLES), None)
    return lane_colour(lane) if lane else _GREY
