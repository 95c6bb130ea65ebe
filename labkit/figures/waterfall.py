"""The waterfall: from the ideal run to the measured one, step by step, with what each step was lost to."""

import plotly.graph_objects as go

from labkit.figures.colours import lane_colour, run_colour, with_alpha
from labkit.figures.shown import Shown
from labkit.figures.theme import Theme, dress, plain, say
from labkit.metrics.waterfall import Waterfall

_ROW_PX = 30


def waterfall(fall: Waterfall | None, run: Shown, theme: Theme = "either") -> go.Figure:
    """A bar for the ideal, one for each loss, beginning where the one before ended, and one for the measured time."""
    figure = go.Figure()
    if fall is None:
        return say(dress(figure, "From ideal to measured", [run], theme, height=160), "no lane but the host was busy")
    rows = [("ideal: all else hidden", 0, fall.ideal_ns, lane_colour(fall.lane))]
    for loss in fall.losses:
        rows.append((loss.words, rows[-1][1] + rows[-1][2], loss.ns, with_alpha(lane_colour(fall.lane), 0.45)))
    rows.append(("measured" if run.measured else "simulated", 0, fall.total_ns, run_colour(1)))
    figure.add_trace(
        go.Bar(
            orientation="h",
            y=[plain(words) for words, *_ in rows],
            base=[fall.relative(base) for _, base, _, _ in rows],
            x=[fall.relative(ns) for _, _, ns, _ in rows],
            marker={"color": [colour for *_, colour in rows], "line": {"width": 0}},
            text=[f"{fall.relative(ns):.2f}  ({fall.per_step_ms(ns):.3g} ms a step)" for _, _, ns, _ in rows],
            textposition="outside",
            cliponaxis=False,
            constraintext="none",
            textfont={"size": 11},
            showlegend=False,
            hovertemplate="%{y}<br>%{text}<extra></extra>",
        )
    )
    words = f"1 is the busy time of {fall.lane}, the busiest lane: what the run would take if everything overlapped"
    dress(figure, "From ideal to measured", [run], theme, height=_ROW_PX * len(rows) + 30, words=words)
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text="times the ideal", rangemode="tozero", range=[0, 1.35 * fall.relative(fall.total_ns)])
    return figure.update_layout(bargap=0.25)
