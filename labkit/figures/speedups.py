"""Virtual speed-ups: what the whole would gain if one stage took less time. Predictions all, and drawn as such."""

from collections.abc import Sequence

import plotly.graph_objects as go

from labkit.figures.colours import shade
from labkit.figures.look import Look
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.whatif import SPEEDUPS, Speedup
from labkit.units import format_percent

STAGES_SHOWN = 8
_STAGE_PX = 62


def speedups(found: Sequence[Speedup], run: Shown, error: float, theme: Theme = "either") -> go.Figure:
    """For the most promising stages: the gain in throughput where the stage takes 10, 25, 50 or 100 % less time.

    error  of the replay of the run as it was, ÷ what was measured, − 1
    """
    figure, shown = go.Figure(), list(found)[:STAGES_SHOWN]
    for place, share in reversed(list(enumerate(SPEEDUPS))):
        gains = [100 * (each.gains[place] - 1) for each in shown]
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=[plain(_name(each)) for each in shown],
                x=gains,
                name="it takes no time" if share == 1 else f"{format_percent(share)} less time",
                marker=Look(1, measured=False).marker(shade("#3F78D0", place)),
                text=[f"+{gain:.0f} %" if gain >= 0.5 else "" for gain in gains],
                textposition="outside",
                cliponaxis=False,
                constraintext="none",
                textfont={"size": 10},
                hovertemplate="%{y}, %{fullData.name}: %{x:+.1f} % throughput<extra></extra>",
            )
        )
    if not shown:
        return say(dress(figure, "If a stage were faster", [run], theme, height=160), "nothing ran that could be faster")
    words = f"predicted: the trace replayed with that stage faster; the replay as it was is off by {format_percent(abs(error))}"
    dress(figure, "If a stage were faster", [run], theme, height=_STAGE_PX * len(shown) + 40, words=words)
    most = max(100 * (max(each.gains) - 1) for each in shown)
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text="gain in throughput, %", range=[0, 1.15 * max(most, 1.0)])
    return figure.update_layout(legend_traceorder="reversed")


def _name(stage: Speedup) -> str:
    return f"all of {stage.name}" if stage.sort == "lane" else stage.name
