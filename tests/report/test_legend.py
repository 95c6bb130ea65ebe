"""The legend of a report's timeline: the most time first, the rest under one entry, and no room kept for what is gone."""

import plotly.graph_objects as go

from labkit.figures import theme
from labkit.report.legend import short_legend


def bars(*lengths: list[float], theme_height: int = 300) -> go.Figure:
    figure = go.Figure()
    for number, each in enumerate(lengths):
        name = f"kernel {number} with a long name"
        figure.add_trace(go.Bar(orientation="h", x=each, y=[0] * len(each), name=name, legendgroup=name, showlegend=True))
    return theme.dress_with(figure, "Timeline", [], "light", theme_height)


def legend(figure: go.Figure) -> list[str]:
    shown = [bar for bar in figure.data if bar.showlegend]
    return [bar.name.removesuffix(" with a long name") for bar in sorted(shown, key=lambda bar: bar.legendrank)]


def test_the_most_time_in_view_comes_first_and_the_rest_share_one_entry() -> None:
    figure = short_legend(bars([1, 1], [5], [3], [0.5], [1.5]), most=2)
    assert legend(figure) == ["kernel 1", "kernel 2", "other (3)"]
    assert {bar.legendgroup for bar in figure.data if bar.legendrank == 3} == {"other"}, "one switch for all of them"
    assert len(figure.data) == 5, "nothing is taken out of the picture"


def test_one_more_than_fits_keeps_its_name() -> None:
    assert legend(short_legend(bars([1], [3], [2]), most=2)) == ["kernel 1", "kernel 2", "kernel 0"]


def test_a_name_drawn_twice_counts_together_and_is_listed_once() -> None:
    figure = bars([1], [2], [2.5], [0.1], [0.1])
    twin = go.Bar(orientation="h", x=[2], y=[1], name="kernel 0 with a long name", legendgroup="kernel 0 with a long name", showlegend=False)
    figure.add_trace(twin)
    assert legend(short_legend(figure, most=2)) == ["kernel 0", "kernel 2", "other (3)"]


def test_the_rest_is_listed_even_where_its_first_bar_was_a_twin_without_an_entry() -> None:
    figure = bars([9], [8], [1], [0.5])
    figure.add_trace(go.Bar(orientation="h", x=[0.1], y=[1], name="a", legendgroup="a", showlegend=False))
    assert legend(short_legend(figure, most=2)) == ["kernel 0", "kernel 1", "other (3)"]


def test_the_figure_is_as_tall_as_if_it_had_been_dressed_so() -> None:
    figure = short_legend(bars(*[[30 - n] for n in range(30)]))
    height, below = figure.layout.height, figure.layout.margin.b
    again = theme.dress_with(figure, "Timeline", [], "light", 300)
    assert (again.layout.height, again.layout.margin.b) == (height, below)


def test_a_very_long_name_is_cut() -> None:
    figure = bars([2], [1])
    figure.data[0].name = "k" * 60
    assert [len(name) for name in legend(short_legend(figure))] == [40, len("kernel 1")]
