"""The bound, the model and the measurement of one run and of one change to it, on one axis: nothing that was predicted looks measured."""

from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

from labkit.figures.colours import run_colour, with_alpha
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain
from labkit.units import significant

Sort = Literal["measured", "predicted", "bound"]

_ROW_PX = 34


@dataclass(frozen=True)
class Rate:
    """One row: a rate, what it is, and from where to where it may be where it was measured with an interval.

    change  it is with the change; else as the run was
    """

    words: str
    sort: Sort
    value: float
    change: bool = False
    low: float | None = None
    high: float | None = None


def one_axis(rates: list[Rate], run: Shown, unit: str, words: str = "", theme: Theme = "either") -> go.Figure:
    """A point for each rate, over one axis: full where it was measured, hollow where it was predicted, a bar for the bound.

    words  a line below the title: what is changed
    """
    figure = go.Figure()
    for rate in rates:
        figure.add_trace(_point(rate, unit))
    dress(figure, "Bound, prediction and measurement", [run], theme, height=_ROW_PX * len(rates) + 30, words=words)
    most = max([rate.high or rate.value for rate in rates], default=1.0)
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(title_text=unit, rangemode="tozero", range=[0, 1.25 * most])
    return figure.update_layout(showlegend=False)


def _point(rate: Rate, unit: str) -> go.Scatter:
    colour = run_colour(1 if rate.change else 0)
    marker = {
        "measured": {"symbol": "circle", "size": 13, "color": colour, "line": {"width": 2, "color": colour}},
        "predicted": {"symbol": "circle-open", "size": 13, "color": colour, "line": {"width": 2}},
        "bound": {"symbol": "line-ns", "size": 20, "line": {"width": 3, "color": with_alpha(colour, 0.7)}},
    }[rate.sort]
    reach = None
    if rate.low is not None and rate.high is not None:
        reach = {"type": "data", "symmetric": False, "array": [rate.high - rate.value], "arrayminus": [rate.value - rate.low], "color": colour, "width": 6}
    return go.Scatter(
        x=[rate.value],
        y=[plain(rate.words)],
        mode="markers+text",
        marker=marker,
        error_x=reach,
        text=[f"  {significant(rate.value)}"],
        textposition="top center" if reach else "middle right",
        cliponaxis=False,
        textfont={"size": 11},
        hovertemplate=f"{plain(rate.words)}: %{{x:.4g}} {unit}<extra></extra>",
    )
