"""The timeline: a row a unit, a bar a slice, and never more than a page can draw."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from labkit.figures import Shown, timeline, two_timelines
from labkit.figures.colours import LANE_COLOURS, with_alpha
from labkit.figures.raster import BINS, busy_shares
from labkit.figures.view import default_view
from labkit.schedule import Status
from labkit.trace import KIND_OP, Recorder
from tests.figures.shown_runs import dense_trace, shown, shown_of_trace


def bars(figure: go.Figure) -> dict[str, go.Bar]:
    return {trace.name: trace for trace in figure.data}


def test_there_is_a_row_for_each_unit_of_each_lane(b: Shown):
    assert list(timeline(b).layout.yaxis.ticktext) == ["host", "workers 0", "workers 1", "compute"]


def test_the_default_view_is_ten_steps_in_the_middle_of_the_steady_window(a: Shown):
    first_ns, last_ns = default_view(a)
    opens_ns, closes_ns = a.summary.window_ns
    ends = a.trace["end_ns"][a.trace["items"] > 0]
    ends = ends[(ends >= opens_ns) & (ends <= closes_ns)]
    middle = (len(ends) - 11) // 2
    assert (first_ns, last_ns) == (ends[middle], ends[middle + 10])
    assert len(bars(timeline(a))["update"].x) == 10


def test_each_op_name_is_one_trace_in_a_shade_of_its_lane(b: Shown):
    drawn = bars(timeline(b))
    assert set(drawn) == {"load", "forward", "update", "host waits"}
    assert drawn["load"].marker.color == with_alpha(LANE_COLOURS["workers"], 1)
    assert drawn["forward"].marker.color == with_alpha(LANE_COLOURS["compute"], 1)
    assert drawn["update"].marker.color != drawn["forward"].marker.color


def test_the_hosts_waits_are_pale(b: Shown):
    assert bars(timeline(b))["host waits"].marker.color == with_alpha(LANE_COLOURS["host"], 0.22)


def test_a_bar_begins_and_ends_where_its_slice_does(a: Shown):
    figure = timeline(a, 0, 30_000)
    update = bars(figure)["update"]
    rows = np.flatnonzero((a.trace["items"] > 0) & (a.trace["end_ns"] <= 30_000))
    unit_ns = {"µs": 1000, "ns": 1, "ms": 1_000_000}[
        figure.layout.xaxis.title.text.rpartition("(")[2].strip(")")
    ]
    np.testing.assert_allclose(np.array(update.base[: len(rows)], float) * unit_ns, a.trace["start_ns"][rows])
    np.testing.assert_allclose(
        np.array(update.x[: len(rows)], float) * unit_ns, (a.trace["end_ns"] - a.trace["start_ns"])[rows]
    )


def test_slices_are_cut_to_the_view(a: Shown):
    figure = timeline(a, 4_000, 5_000)
    [load] = [trace for trace in figure.data if trace.name == "load"]
    low, high = figure.layout.xaxis.range
    assert load.base[0] == pytest.approx(low)
    assert load.base[0] + load.x[0] == pytest.approx(high)


def test_hovering_tells_op_step_and_duration(a: Shown):
    update = bars(timeline(a, 0, 30_000))["update"]
    assert list(update.customdata[0]) == ["update", "step 0", "4 µs"]


def test_a_failed_op_is_drawn_as_such():
    recorder = Recorder()
    recorder.open_unit("compute", 0, 0)
    recorder.append((0, KIND_OP, "train", "compute", 0, 0, 0, 0, 1, 1, 50, 0, 0, -1, Status.FAILED, ()))
    drawn = bars(timeline(shown_of_trace(recorder.finish(100)), 0, 100))
    assert list(drawn) == ["failed"]
    assert drawn["failed"].customdata[0][0] == "train failed"


def test_a_long_submit_is_time_of_the_host():
    recorder = Recorder()
    recorder.open_unit("host", 0, 0)
    recorder.open_unit("compute", 0, 0)
    recorder.append((0, KIND_OP, "train", "compute", 0, 0, 1, 10, 40, 40, 90, 0, 0, -1, Status.OK, ()))
    drawn = bars(timeline(shown_of_trace(recorder.finish(100)), 0, 100))
    submits = drawn["host submits"]
    assert (submits.base[0], submits.x[0], submits.y[0]) == (10, 30, 0)


def test_a_mark_is_a_line_with_its_words():
    run = shown("A", prefetch=4, toggle_at=(20,))
    mark = run.trace.marks[0]
    figure = timeline(run, mark.time_ns - 20_000, mark.time_ns + 20_000)
    [line] = figure.layout.shapes
    assert line.x0 == line.x1 == pytest.approx(mark.time_ns / 1000)
    assert "A: prefetch 0 → 4" in [annotation.text for annotation in figure.layout.annotations]


def test_a_mark_outside_the_view_is_not_drawn():
    run = shown("A", prefetch=4, toggle_at=(20,))
    assert not timeline(run, run.trace.marks[0].time_ns + 1, run.trace.end_ns).layout.shapes


def test_fifty_thousand_slices_become_at_most_two_thousand_bins_a_row():
    run = shown_of_trace(dense_trace(50_000))
    figure = timeline(run, 0, run.trace.end_ns)
    assert not [trace for trace in figure.data if isinstance(trace, go.Bar)]
    assert {np.shape(picture.z) for picture in figure.data} == {(1, BINS)}
    assert "50\u202f000 slices in view" in figure.layout.title.text
    assert len(figure.to_json()) < 200_000


def test_the_raster_shows_the_true_busy_share():
    run = shown_of_trace(dense_trace(50_000))
    compute = next(
        picture for picture in timeline(run, 0, run.trace.end_ns).data if picture.name == "compute"
    )
    np.testing.assert_allclose(compute.z, 0.6, rtol=1e-5)
    assert compute.colorscale[1][1] == with_alpha(LANE_COLOURS["compute"], 1)


def test_zooming_in_brings_the_bars_back():
    run = shown_of_trace(dense_trace(50_000))
    figure = timeline(run, 0, 100_000)
    assert len(bars(figure)["step"].x) == 100


def test_max_slices_decides_when_slices_are_merged(b: Shown):
    assert isinstance(timeline(b, max_slices=10).data[0], go.Heatmap)
    assert isinstance(timeline(b, max_slices=100_000).data[0], go.Bar)


def test_waiting_is_not_busy_in_the_raster(b: Shown):
    host = next(picture for picture in timeline(b, max_slices=1).data if picture.name == "host")
    assert np.max(host.z) == 0


def test_rows_that_were_not_kept_are_told(b: Shown):
    lossy = replace(b, trace=replace(b.trace, dropped=12_345))
    assert "12\u202f345 older rows were not kept" in timeline(lossy).layout.title.text


def test_two_timelines_have_the_same_scale(a: Shown, b: Shown):
    figure = two_timelines(a, b)
    longer = max(last - first for first, last in (default_view(a), default_view(b)))
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range == (0, longer / 1000)
    assert figure.layout.xaxis.matches == "x2"
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert titles[:2] == ["A · CPU threads", "B · CPU threads"]


def test_two_timelines_share_one_legend(a: Shown, b: Shown):
    in_legend = [trace.name for trace in two_timelines(a, b).data if trace.showlegend]
    assert sorted(in_legend) == ["forward", "host waits", "load", "update"]


def test_the_same_op_has_the_same_shade_in_both(a: Shown, b: Shown):
    colours: dict[str, set[str]] = {}
    for trace in two_timelines(a, b).data:
        colours.setdefault(trace.name, set()).add(trace.marker.color)
    assert all(len(each) == 1 for each in colours.values())


def test_busy_shares_count_overlapping_intervals_once():
    start, end = np.array([0, 5, 20]), np.array([10, 8, 25])
    np.testing.assert_allclose(busy_shares(start, end, np.array([0.0, 10, 20, 30])), [1.0, 0.0, 0.5])
    np.testing.assert_allclose(busy_shares(start[:0], end[:0], np.array([0.0, 1, 2])), [0, 0])
