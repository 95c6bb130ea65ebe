"""The roofline: FLOP/s that can be reached at each arithmetic intensity on one machine, and where the operators of a task lie below it."""

from collections.abc import Sequence

import plotly.graph_objects as go

from labkit.device.machine import Machine
from labkit.figures.colours import LANE_COLOURS, run_colour
from labkit.figures.theme import Theme, dress_with, plain, say
from labkit.profile import Placed, TaskProfile
from labkit.profile.roofline import roofs

NAMED_SHARE = 0.02
"""Of the predicted time; smaller ones are named where the mouse is."""
_BOUND_COLOURS = {"compute": LANE_COLOURS["compute"], "memory": LANE_COLOURS["h2d"], "launch": LANE_COLOURS["workers"]}


def roofline(found: TaskProfile, placed: Sequence[Placed], machine: Machine, theme: Theme = "either") -> go.Figure:
    """Log-log; a point a kind of operator, its size its share of the predicted time, its colour what holds it back; a star for the whole."""
    figure = go.Figure()
    shown = [each for each in placed if each.flop_per_s and each.op.intensity]
    left_out = len(placed) - len(shown)
    lines = [f"{found.name}, {'forward and backward' if found.train else 'forward'}; FLOP counted, times predicted for {machine.label}"]
    if left_out:
        lines.append(f"{left_out} kinds of operator have no place here: they move data only, or their FLOP are unknown")
    if not shown:
        return say(dress_with(figure, "Roofline", lines, theme, height=200), "no operator with FLOP and bytes")
    intensities = [each.op.intensity or 1.0 for each in shown]
    low, high = min(*intensities, 0.1) / 2, max(*intensities, 100.0) * 2
    for dash, dtype in zip(("solid", "dash", "dot"), dict.fromkeys(each.op.dtype for each in shown if "float" in each.op.dtype), strict=False):
        roof = roofs(machine, dtype)
        corners = [low, *([roof.ridge] if low < roof.ridge < high else []), high]
        rates = [min(roof.flop_per_s, corner * roof.bytes_per_s) for corner in corners]
        line = {"color": run_colour(0), "width": 2, "dash": dash}
        figure.add_trace(go.Scatter(x=corners, y=rates, mode="lines", line=line, name=f"roof, {dtype}", hoverinfo="skip"))
    whole_ns = sum(each.time_ns or 0.0 for each in placed) or 1.0
    for bound, colour in _BOUND_COLOURS.items():
        group = [each for each in shown if each.bound == bound]
        if group:
            figure.add_trace(_points(group, f"{bound}-bound", colour, whole_ns))
    if found.flop and found.bytes:
        star = {"symbol": "star", "size": 15, "color": run_colour(1)}
        rate = found.flop * 1e9 / whole_ns
        figure.add_trace(go.Scatter(x=[found.flop / found.bytes], y=[rate], mode="markers", marker=star, name="the whole"))
    dress_with(figure, "Roofline", lines, theme, height=420)
    figure.update_xaxes(type="log", title_text="arithmetic intensity, FLOP a byte", exponentformat="power")
    return figure.update_yaxes(type="log", title_text="FLOP/s", exponentformat="SI")


def _points(group: Sequence[Placed], name: str, colour: str, whole_ns: float) -> go.Scatter:
    shares = [(each.time_ns or 0.0) / whole_ns for each in group]
    marker = {"size": [8 + 26 * share**0.5 for share in shares], "color": colour, "opacity": 0.75, "line": {"width": 1, "color": colour}}
    return go.Scatter(
        x=[each.op.intensity for each in group], y=[each.flop_per_s for each in group], mode="markers+text", marker=marker, name=name,
        text=[plain(each.op.name) if share >= NAMED_SHARE else "" for each, share in zip(group, shares, strict=True)],
        textposition=[("top center", "bottom center")[place % 2] for place in range(len(group))], textfont={"size": 10},
        customdata=[[plain(each.op.name), f"{100 * share:.1f} %", each.op.calls] for share, each in zip(shares, group, strict=True)],
        hovertemplate="%{customdata[0]}: %{x:.3g} FLOP a byte, %{y:.3s}FLOP/s<br>%{customdata[1]} of the predicted time, %{customdata[2]} calls<extra></extra>",
    )  # fmt: skip
