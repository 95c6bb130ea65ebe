"""Side by side: one bar a run in each group, absent numbers as gaps."""

from dataclasses import replace

import pytest

from labkit.figures import Shown, side_by_side
from labkit.figures.colours import LANE_COLOURS, with_alpha


def test_each_run_has_one_trace_in_each_of_four_panels(a: Shown, b: Shown, predicted_b: Shown):
    figure = side_by_side([a, b, predicted_b])
    assert len(figure.data) == 12
    assert sum(trace.showlegend for trace in figure.data) == 3


def test_the_bars_are_as_high_as_the_numbers(a: Shown, b: Shown):
    figure = side_by_side([a, b])
    throughput, interval, age, busy = figure.data[:4]
    assert throughput.y[0] == a.summary.throughput.value == pytest.approx(32 / 15.003e-6, rel=1e-3)
    assert interval.y[0] == pytest.approx(15.0, abs=0.01)
    assert figure.layout.yaxis2.title.text == "µs"
    assert age.y[0] == pytest.approx(a.summary.batch_age["p50"].value / 1000)
    assert busy.y[busy.x.index("compute")] == pytest.approx(100 * a.summary.utilization["compute"].value)


def test_a_percentile_that_was_refused_is_a_gap_and_the_reason_is_told(a: Shown, b: Shown):
    figure = side_by_side([a, b])
    intervals = figure.data[1]
    assert a.summary.step_interval["p99"].value is None
    assert intervals.y[intervals.x.index("p99")] is None
    assert "A measured, step interval p99" in figure.layout.title.text
    assert figure.data[5].y[2] is not None


def test_lanes_have_their_colours(b: Shown):
    busy = side_by_side([b]).data[3]
    assert list(busy.marker.color) == [with_alpha(LANE_COLOURS[lane], 1) for lane in busy.x]


def test_a_lane_that_one_run_lacks_is_a_gap_in_its_bars(a: Shown, b: Shown):
    utilization = {lane: metric for lane, metric in b.summary.utilization.items() if lane != "workers"}
    bare = replace(b, summary=replace(b.summary, utilization=utilization))
    busy = side_by_side([a, bare]).data[7]
    assert busy.y[busy.x.index("workers")] is None
