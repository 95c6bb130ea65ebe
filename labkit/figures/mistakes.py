"""Measured wrongly on purpose: how far each mistake is from what is right, and a table of both. Every wrong number says INVALID."""

from collections.abc import Sequence

import plotly.graph_objects as go

from labkit.figures.colours import GRADE_COLOURS, run_colour, with_alpha
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.mistakes import Mistake
from labkit.units import significant

HEADING = ("mistake", "what", "right", "INVALID", "wrong ÷ right", "why it is wrong")
_ROW_PX = 44


def mistakes(found: Sequence[Mistake], run: Shown, theme: Theme = "either") -> go.Figure:
    """Wrong ÷ right of each mistake on a logarithmic axis; 1, the line, is right."""
    shown = [mistake for mistake in found if mistake.factor]
    figure = go.Figure()
    if not shown:
        return say(dress(figure, "Measured wrongly", [run], theme, height=160), "this run shows none of the mistakes")
    names = [plain(mistake.name) for mistake in shown]
    factors = [mistake.factor or 1.0 for mistake in shown]
    for name, factor in zip(names, factors, strict=True):
        line = {"width": 2, "color": with_alpha(GRADE_COLOURS["INVALID"], 0.35)}
        figure.add_trace(go.Scatter(x=[1, factor], y=[name, name], mode="lines", line=line, showlegend=False, hoverinfo="skip"))
    right = {"symbol": "circle", "size": 9, "color": run_colour(1)}
    figure.add_trace(go.Scatter(x=[1] * len(names), y=names, mode="markers", marker=right, name="right", hoverinfo="skip"))
    wrong = {"symbol": "x", "size": 10, "color": with_alpha(GRADE_COLOURS["INVALID"], 0.7)}
    figure.add_trace(
        go.Scatter(
            x=factors, y=names, mode="markers+text", marker=wrong, name="INVALID: what the mistake makes of it", cliponaxis=False,
            text=[f"  {_times(factor)}  " for factor in factors], textfont={"size": 11},
            textposition=["middle right" if factor >= 1 else "middle left" for factor in factors],
            customdata=[[plain(_value(mistake.wrong, mistake.unit)), plain(_value(mistake.right, mistake.unit))] for mistake in shown],
            hovertemplate="%{y}: INVALID %{customdata[0]} for %{customdata[1]}<extra></extra>",
        )
    )  # fmt: skip
    dress(figure, "Measured wrongly", [run], theme, height=_ROW_PX * len(shown) + 40, words="the same run, read with the usual mistakes; 1 is right")
    figure.update_xaxes(type="log", title_text="wrong ÷ right")
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def mistakes_table(found: Sequence[Mistake]) -> list[list[str]]:
    """Rows of text, the heading first; what a run does not show is told with the reason."""
    rows = [list(HEADING)]
    for mistake in found:
        right = _value(mistake.right, mistake.unit)
        if mistake.wrong is None:
            rows.append([mistake.name, mistake.number, right, "–", "–", f"not shown by this run: {mistake.reason}"])
        else:
            factor = "–" if mistake.factor is None else _times(mistake.factor)
            rows.append([mistake.name, mistake.number, right, f"INVALID: {_value(mistake.wrong, mistake.unit)}", factor, mistake.why])
    return rows


def _value(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{significant(value)} {unit}"


def _times(factor: float) -> str:
    return f"{factor:,.0f}×".replace(",", "\u202f") if factor >= 100 else f"{factor:.3g}×"
