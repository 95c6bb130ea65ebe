"""The guess beside the answer: what people expected of B against A, what the simulator predicted, and what was measured.

One axis, B ÷ A on a logarithmic scale, so that half as fast and twice as fast are equally far from no difference. The measurement
is solid, whatever was simulated is hollow and dashed and says so. `guess_errors` gives the same as numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log10

import plotly.graph_objects as go

from labkit.errors import LabkitError
from labkit.figures.colours import run_colour, with_alpha
from labkit.figures.numbers import count_text
from labkit.figures.theme import Theme, dress_with, plain, say, template
from labkit.units import significant

_ROW_PX, _LABEL_PX = 52, 18
_GUESS_COLOUR = run_colour(6)
_ANSWER_COLOUR = run_colour(1)
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 7, 10, 20, 50, 100)
_TICKS_APART = 1 / 9
_ROOM = 1.12


@dataclass(frozen=True)
class Guess:
    """What somebody expects: B ÷ A, and which lane holds B back. None where they did not say."""

    ratio: float | None
    bottleneck: str | None = None


@dataclass(frozen=True)
class Answer:
    """What came out: B ÷ A with its interval, and what holds B back.

    label       what it ran on, or what was simulated
    measured    False for a prediction
    reason      why there is no ratio
    low, high   None where there is no interval
    """

    ratio: float | None
    low: float | None
    high: float | None
    bottleneck: str | None
    label: str
    measured: bool
    reason: str | None = None


@dataclass(frozen=True)
class GuessErrors:
    """How far off: guess ÷ answer − 1, prediction ÷ answer − 1; None where either is absent.

    guess_inside, prediction_inside  whether it lies in the answer's interval, None without one
    guess_right, prediction_right    whether it named the bottleneck that was found
    """

    guess: float | None
    prediction: float | None
    guess_inside: bool | None
    prediction_inside: bool | None
    guess_right: bool | None
    prediction_right: bool | None


@dataclass(frozen=True)
class _Row:
    """One row: its words, and what is drawn below them."""

    words: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    solid: bool = False
    symbol: str = "circle"
    colour: str = _ANSWER_COLOUR


def guess_errors(guessed: Guess, predicted: Answer | None, measured: Answer | None) -> GuessErrors:
    """How far the guess and the prediction are from what was measured. Raises LabkitError for a ratio of 0 or less."""
    answer = measured.ratio if measured else None
    expected = (guessed.ratio, predicted.ratio if predicted else None)
    found = measured.bottleneck if measured else None
    named = (guessed.bottleneck, predicted.bottleneck if predicted else None)
    for ratio in (*expected, answer):
        if ratio is not None and not (isfinite(ratio) and ratio > 0):
            raise LabkitError(f"a ratio B ÷ A of {ratio} is not allowed; allowed: more than 0")
    off = [None if ratio is None or answer is None else ratio / answer - 1 for ratio in expected]
    inside = [_inside(ratio, measured) for ratio in expected]
    right = [None if name is None or found is None else name == found for name in named]
    return GuessErrors(*off, *inside, *right)


def guess(
    guessed: Guess, predicted: Answer | None, measured: Answer | None, theme: Theme = "either"
) -> go.Figure:
    """B ÷ A on one axis: guessed, predicted, measured with its interval, each with its error against the measurement."""
    off = guess_errors(guessed, predicted, measured)
    rows = [
        _guess_row(guessed, _error_words(off.guess, off.guess_inside)),
        _answer_row("predicted", predicted, "no prediction", _error_words(off.prediction, off.prediction_inside)),
        _answer_row("measured" if measured is None or measured.measured else "simulated", measured, "not measured yet", ""),
    ]
    figure = go.Figure()
    for place, row in enumerate(rows):
        _add_row(figure, place, row)
    lines = _bottleneck_lines(guessed, predicted, measured, off)
    dress_with(figure, "Guess and answer: throughput of B ÷ A", lines, theme, height=_ROW_PX * len(rows) + 66)
    figure.update_layout(showlegend=False, hovermode="closest", margin_l=16)
    if not any(row.ratio for row in rows):
        return _nothing(figure, rows)
    _mark_no_difference(figure, len(rows), theme)
    for place, row in enumerate(rows):
        _write_row(figure, place, row.words)
    _scale(figure, rows)
    return figure


def _guess_row(guessed: Guess, error: str) -> _Row:
    words = "<b>no guess</b>" if guessed.ratio is None else f"<b>guessed {ratio_text(guessed.ratio)}</b>{error}"
    return _Row(words, guessed.ratio, symbol="diamond", colour=_GUESS_COLOUR)


def _answer_row(verb: str, answer: Answer | None, absent: str, error: str) -> _Row:
    if answer is None:
        return _Row(f"<b>{absent}</b>", None)
    if answer.ratio is None:
        reason = plain(answer.reason or "no reason was given")
        return _Row(f"<b>not {verb}</b>: {reason}{_where(answer, verb)}", None)
    interval = ""
    if answer.low is not None and answer.high is not None:
        interval = f" ({_digits(answer.low)} to {_digits(answer.high)})"
    words = f"<b>{verb} {ratio_text(answer.ratio)}</b>{interval}{error}{_where(answer, verb)}"
    return _Row(words, answer.ratio, answer.low, answer.high, solid=answer.measured)


def _where(answer: Answer, verb: str) -> str:
    """` · CPU threads`; it says "simulated" wherever it was, and does not repeat the verb."""
    label = answer.label.strip()
    if label.lower().startswith(verb):
        label = label[len(verb) :].lstrip(" ,:")
    if not answer.measured and "simulated" not in f"{verb} {label}".lower():
        label = f"simulated {label}".strip()
    return f" · {plain(label)}" if label else ""


def _add_row(figure: go.Figure, place: int, row: _Row) -> None:
    """A line from no difference to the ratio, its interval, and the marker at the end."""
    if row.ratio is None:
        return
    hover = f"{row.words}<extra></extra>"
    line = {"color": with_alpha(row.colour, 0.75), "width": 2, "dash": "solid" if row.solid else "dash"}
    figure.add_trace(go.Scatter(x=[1, row.ratio], y=[place, place], mode="lines", line=line, hoverinfo="skip"))
    if row.low is not None and row.high is not None:
        wide = {"color": row.colour, "width": 7 if row.solid else 1.5}
        figure.add_trace(go.Scatter(x=[row.low, row.high], y=[place, place], mode="lines+markers", line=wide, opacity=0.55,
                                    marker={"symbol": "line-ns", "size": 15, "line": {"width": 2, "color": row.colour}},
                                    hoverinfo="skip"))  # fmt: skip
    marker = {"size": 13, "color": row.colour, "symbol": row.symbol if row.solid else f"{row.symbol}-open"}
    marker |= {"line": {"width": 2.5, "color": row.colour}}
    figure.add_trace(go.Scatter(x=[row.ratio], y=[place], mode="markers", marker=marker, hovertemplate=hover))


def _write_row(figure: go.Figure, place: int, words: str) -> None:
    figure.add_annotation(
        text=words, x=0, xref="paper", xanchor="left", y=place, yref="y", yshift=_LABEL_PX, yanchor="middle", showarrow=False,
        align="left",
    )  # fmt: skip


def _mark_no_difference(figure: go.Figure, rows: int, theme: Theme) -> None:
    """A line at 1 that leaves the words of each row free."""
    ink = template(theme).layout.xaxis.tickfont.color
    for place in range(rows):
        line = {"width": 1.5, "color": ink}
        figure.add_shape(type="line", x0=1, x1=1, y0=place - 0.18, y1=place + 0.44, line=line, layer="below")
    figure.add_annotation(
        text="no difference", x=0, xref="x", y=1, yref="paper", yanchor="bottom", showarrow=False, font={"size": 11, "color": ink}
    )


def _scale(figure: go.Figure, rows: Sequence[_Row]) -> None:
    low, high = _span(rows)
    ticks = _ticks(low, high)
    figure.update_xaxes(
        type="log", range=[log10(low), log10(high)], tickvals=ticks, ticktext=[f"{significant(tick)}×" for tick in ticks],
        tickangle=0, title_text="B ÷ A, logarithmic", zeroline=False,
    )  # fmt: skip
    figure.update_yaxes(range=[len(rows) - 0.55, -0.75], visible=False)


def _nothing(figure: go.Figure, rows: Sequence[_Row]) -> go.Figure:
    say(figure, "")
    figure.layout.annotations[-1].text = "<br>".join(row.words for row in rows)
    return figure


def _span(rows: Sequence[_Row]) -> tuple[float, float]:
    """From the least to the greatest ratio drawn, no difference among them, with room at both ends."""
    drawn = [1.0, *(value for row in rows for value in (row.ratio, row.low, row.high) if value)]
    low, high = min(drawn), max(drawn)
    room = max((high / low) ** 0.08, _ROOM)
    return low / room, high * room


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios, 1 among them, that leave each other room."""
    apart = _TICKS_APART * log10(high / low)
    ticks = [1.0]
    for tick in sorted(_TICKS, key=lambda tick: abs(log10(tick))):
        if low <= tick <= high and all(abs(log10(tick / other)) >= apart for other in ticks):
            ticks.append(float(tick))
    return sorted(ticks)


def _bottleneck_lines(
    guessed: Guess, predicted: Answer | None, measured: Answer | None, off: GuessErrors
) -> list[str]:
    """`Bottleneck of B: guessed workers (wrong), predicted compute (right), found compute.`"""
    parts = []
    for verb, name, right in (
        ("guessed", guessed.bottleneck, off.guess_right),
        ("predicted", predicted.bottleneck if predicted else None, off.prediction_right),
        ("found", measured.bottleneck if measured else None, None),
    ):
        if name is not None:
            parts.append(f"{verb} {name}{'' if right is None else ' (right)' if right else ' (wrong)'}")
        elif verb == "found" and parts:
            parts.append("none found yet")
    return [f"Bottleneck of B: {', '.join(parts)}"] if parts else []


def _inside(ratio: float | None, measured: Answer | None) -> bool | None:
    if ratio is None or measured is None or measured.low is None or measured.high is None:
        return None
    return measured.low <= ratio <= measured.high


def _error_words(error: float | None, inside: bool | None) -> str:
    """`, 12 % too high`; an error of a ratio that lies in the measurement's interval says that too."""
    if error is None:
        return ""
    percent = round(100 * abs(error), 1)
    if percent == 0:
        return ", exactly right"
    digits = f"{percent:.1f}" if percent < 9.95 else count_text(round(percent))
    words = f", {digits} % too {'high' if error > 0 else 'low'}"
    return f"{words}, inside the interval" if inside else words


def ratio_text(ratio: float) -> str:
    """A ratio for people, `1.50×`."""
    return f"{_digits(ratio)}×"


def _digits(ratio: float) -> str:
    return f"{ratio:.2f}" if 0.095 <= ratio < 9.995 else significant(ratio)
