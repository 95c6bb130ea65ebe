"""What every figure owes its reader: the device in its title, simulated runs hatched and named so, absent numbers as gaps."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import plotly.graph_objects as go
import pytest

from labkit.figures import (
    Shown,
    distribution,
    prediction,
    side_by_side,
    throughput_over_time,
    timeline,
    two_timelines,
    utilization,
)

Draw = Callable[[list[Shown]], go.Figure]

ONE: dict[str, Draw] = {
    "side by side": side_by_side,
    "timeline": lambda runs: timeline(runs[0]),
    "throughput over time": throughput_over_time,
    "distribution": distribution,
    "utilization": utilization,
}
BARS = ("side by side", "timeline", "utilization")
LINES = ("throughput over time", "distribution")


def is_hatched(trace: go.Bar) -> bool:
    return trace.marker.pattern.shape == "/"


def shown_words(figure: go.Figure) -> list[str]:
    """What plotly would read markup in."""
    traces = [words for trace in figure.data for words in (trace.name, trace.hovertemplate) if words]
    return [*traces, figure.layout.title.text, *(annotation.text for annotation in figure.layout.annotations)]


@pytest.mark.parametrize("name", ONE)
def test_the_device_stands_below_the_title_of(name: str, b: Shown):
    assert "measured on CPU threads" in ONE[name]([b]).layout.title.text


@pytest.mark.parametrize("name", ONE)
def test_a_simulated_device_is_named_so_in(name: str, on_h200: Shown):
    figure = ONE[name]([replace(on_h200, device_label="H200")])
    assert "predicted, simulated H200" in figure.layout.title.text
    assert "measured on" not in figure.layout.title.text


@pytest.mark.parametrize("name", BARS)
def test_bars_are_hatched_exactly_where_the_run_was_simulated_in(name: str, b: Shown, predicted_b: Shown):
    assert not any(is_hatched(trace) for trace in ONE[name]([b]).data)
    bars = [trace for trace in ONE[name]([predicted_b]).data if isinstance(trace, go.Bar)]
    assert bars and all(is_hatched(trace) for trace in bars)


@pytest.mark.parametrize("name", LINES)
def test_lines_are_dashed_exactly_where_the_run_was_simulated_in(name: str, b: Shown, predicted_b: Shown):
    assert {trace.line.dash for trace in ONE[name]([b]).data} <= {"solid", None}
    named = [trace for trace in ONE[name]([b, predicted_b]).data if "simulated" in (trace.name or "")]
    assert named and {trace.line.dash for trace in named if trace.showlegend is not False} == {"dash"}


def test_predicted_bars_are_hatched_and_measured_ones_solid_beside_each_other(
    a: Shown, b: Shown, predicted_b: Shown
):
    for figure in (side_by_side([a, b, predicted_b]), prediction([a, b, predicted_b])):
        for trace in figure.data:
            assert is_hatched(trace) == ("simulated" in trace.name), trace.name


@pytest.mark.parametrize("name", ONE)
def test_markup_in_a_label_is_shown_and_not_obeyed_in(name: str, b: Shown):
    figure = ONE[name]([replace(b, label="<b>B</b>", device_label="<i>CPU</i>"), b])
    assert "&lt;i&gt;CPU&lt;/i&gt;" in figure.layout.title.text
    assert not any("<i>" in words or "<b>B" in words for words in shown_words(figure))


@pytest.mark.parametrize("theme", ["either", "light", "dark"])
def test_figures_let_the_page_shine_through(theme: str, b: Shown):
    layout = side_by_side([b], theme).layout.template.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_a_theme_that_is_none_is_refused(b: Shown):
    with pytest.raises(ValueError, match=r"'solarized' is not allowed; allowed: either, light, dark"):
        side_by_side([b], "solarized")


@pytest.mark.parametrize("name", ONE)
def test_no_button_offers_to_send_a_figure_away_from(name: str, b: Shown):
    assert "sendChartToCloud" in ONE[name]([b]).layout.template.layout.modebar.remove


@pytest.mark.parametrize("draw", [*(ONE[name] for name in ONE), lambda runs: two_timelines(runs[0], runs[0])])
def test_a_run_without_a_trace_is_drawn_as_far_as_its_summary_goes(draw: Draw, b: Shown):
    figure = draw([replace(b, trace=None)])
    words = [annotation.text for annotation in figure.layout.annotations]
    assert figure.data or any("no trace" in text for text in words)


def test_figures_need_no_browser_and_no_image_export():
    code = "import sys, labkit.figures; print(*sorted({'kaleido', 'torch', 'ipywidgets', 'pandas'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []


def test_importing_labkit_brings_in_no_plotly():
    code = "import sys, labkit; print('plotly' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "False"
