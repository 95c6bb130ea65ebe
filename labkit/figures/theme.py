"""The theme: type, ink and grid for a light page, a dark page, or either; and the title that says what ran where.

Figures are transparent, so that they sit in any page. `either` has mid-tone ink that can be read on both
kinds; `light` and `dark` have more contrast, for who knows the page.
"""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Literal

import plotly.graph_objects as go

from labkit.figures.shown import Shown

Theme = Literal["either", "light", "dark"]


def _halo(page: str) -> str:
    """A shadow in the colour of the page, so that words can be read on a hatched bar."""
    return ", ".join([f"0 0 3px {page}"] * 4)


_INK = {
    "either": ("#787D85", "#787D85", "rgba(128,132,140,0.28)", "none"),
    "light": ("#24292F", "#57606A", "rgba(88,96,105,0.20)", _halo("#FFFFFF")),
    "dark": ("#E3E8EE", "#A3ACB6", "rgba(160,168,178,0.24)", _halo("#0D1117")),
}
_FAMILY = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Helvetica, Arial, sans-serif"
_BUTTONS_LEFT_OUT = ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"]
_LINE_PX = 17
_LEGEND_ROW_PX = 20
_LINE_CHARACTERS = 120


def template(theme: Theme) -> go.layout.Template:
    """Ink, grid and type as a plotly template. Raises ValueError for a theme that is none."""
    if theme not in _INK:
        raise ValueError(f"theme {theme!r} is not allowed; allowed: {', '.join(_INK)}")
    ink, muted, grid, halo = _INK[theme]
    axis = {
        "gridcolor": grid,
        "zerolinecolor": grid,
        "linecolor": grid,
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
        "tickfont": {"color": muted},
        "title": {"font": {"color": muted, "size": 12}, "standoff": 8},
        "automargin": True,
    }
    bar = {"insidetextfont": {"color": ink, "shadow": halo}, "outsidetextfont": {"color": ink}}
    return go.layout.Template(
        data={"bar": [bar]},
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": _FAMILY, "size": 12, "color": ink},
            "title": {
                "x": 0,
                "xref": "container",
                "xanchor": "left",
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "pad": {"l": 12, "t": 12},
                "font": {"size": 16, "color": ink},
            },
            "legend": {"bgcolor": "rgba(0,0,0,0)", "font": {"color": ink}},
            "xaxis": {**axis, "dividercolor": grid},
            "yaxis": {**axis, "dividercolor": grid},
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": muted,
                "activecolor": ink,
                "remove": _BUTTONS_LEFT_OUT,
            },
            "bargap": 0.28,
            "bargroupgap": 0.06,
            "annotationdefaults": {"font": {"color": ink, "size": 12}},
            "shapedefaults": {"line": {"color": muted}},
        },
    )


def dress(
    figure: go.Figure, title: str, runs: Sequence[Shown], theme: Theme, height: int, words: str = ""
) -> go.Figure:
    """Give a figure its title, the devices below it, its legend at the foot, and its height. Returns it.

    words  a line of its own for what the figure leaves out or how to read it
    """
    lines = device_lines(runs) + ([words] if words else [])
    return dress_with(figure, title, lines, theme, height)


def dress_with(figure: go.Figure, title: str, lines: Sequence[str], theme: Theme, height: int) -> go.Figure:
    """As `dress`, with the lines below the title given."""
    lines = [part for line in lines for part in wrap(line, _LINE_CHARACTERS)]
    below = "".join(f'<br><span style="font-size:12px">{plain(line)}</span>' for line in lines)
    top, foot = 40 + _LINE_PX * len(lines), _LEGEND_ROW_PX * legend_rows(figure)
    return figure.update_layout(
        template=template(theme),
        title={"text": f"<b>{plain(title)}</b>{below}"},
        height=height + top + foot,
        margin={"l": 56, "r": 24, "t": top + 22, "b": 56 + foot},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
        },
        barmode="group",
    )


def device_lines(runs: Sequence[Shown]) -> list[str]:
    """What ran on what, one line a device, and what may not be relied on: `A, B: measured on CPU threads`."""
    labels: dict[str, list[str]] = {}
    for run in runs:
        labels.setdefault(_device_words(run), []).append(run.label)
    if len(runs) == 1:
        return list(labels)
    return [f"{', '.join(each)}: {device}" for device, each in labels.items()]


def legend_rows(figure: go.Figure, width_px: int = 760) -> int:
    """How many rows the legend below a figure takes on a page of this width, estimated from its words."""
    rows, used_px = 1, 0.0
    for name in [trace.name or "" for trace in figure.data if trace.showlegend is not False]:
        entry_px = 44 + 6.3 * len(name)
        if used_px and used_px + entry_px > width_px:
            rows, used_px = rows + 1, 0.0
        used_px += entry_px
    return rows


def plain(text: str) -> str:
    """Text that plotly shall show as it is, markup included."""
    return escape(text, quote=False)


def say(figure: go.Figure, words: str) -> go.Figure:
    """Write words in the middle of a figure that has nothing to draw. Returns it."""
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    return figure.add_annotation(text=plain(words), x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)


def _device_words(run: Shown) -> str:
    words = f"measured on {run.device}" if run.measured else f"predicted, {run.device}"
    return f"{words}: {run.grade}" if run.grade in ("WEAK", "INVALID") else words
