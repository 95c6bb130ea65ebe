"""Where the time of each lane went: the parts of each bar make 100 %."""

from collections import defaultdict
from dataclasses import replace

import plotly.graph_objects as go
import pytest

from labkit.figures import Shown, utilization
from labkit.figures.colours import LANE_COLOURS, with_alpha
from labkit.figures.utilization import row_names, waiting
from labkit.metrics.metric import Metric


def totals(figure: go.Figure) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for trace in figure.data:
        for lane, run, share in zip(*trace.y, trace.x, strict=True):
            sums[lane, run.strip("\u00a0")] += share
    return sums


def test_busy_and_waiting_make_one_hundred_percent_of_every_lane(a: Shown, b: Shown, predicted_b: Shown):
    sums = totals(utilization([a, b, predicted_b]))
    assert len(sums) == 9
    assert list(sums.values()) == pytest.approx([100.0] * 9)


def test_busy_has_the_colour_of_the_lane_and_waiting_that_of_the_lane_waited_for(a: Shown):
    figure = utilization([a])
    busy = figure.data[0]
    assert list(busy.marker.color) == [with_alpha(LANE_COLOURS[lane], 1) for lane in busy.y[0]]
    for_workers = next(trace for trace in figure.data if "workers" in trace.name)
    assert for_workers.marker.color.startswith(with_alpha(LANE_COLOURS["workers"], 1)[:-2])


def test_runs_of_one_name_have_bars_of_their_own(b: Shown, predicted_b: Shown, on_h200: Shown):
    assert row_names([b, predicted_b, on_h200]) == ["B", "B · simulated laptop", "B · simulated H200"]
    assert row_names([b, b]) == ["B · CPU threads (1)", "B · CPU threads (2)"]
    assert list(totals(utilization([b, predicted_b, on_h200, b])).values()) == pytest.approx([100.0] * 12)


def test_small_causes_are_put_together_and_lose_nothing(a: Shown):
    causes = {"compute: update": 0.4, "dispatch": 0.004, "launching": 0.006}
    run = replace(a, summary=replace(a.summary, waiting={"workers": causes}))
    shares = waiting(run, "workers")
    assert list(shares) == ["compute: update", "waiting for several things, each under 1 %"]
    assert sum(shares.values()) == pytest.approx(0.41)


def test_each_cause_stands_once_in_the_legend(a: Shown, b: Shown):
    names = [trace.name for trace in utilization([a, b]).data if trace.showlegend]
    assert len(names) == len(set(names)) > 1


def test_a_lane_whose_share_is_unknown_has_no_bar(a: Shown):
    unknown = Metric("utilization", None, "share", 0, "", reason="the lane was open for no time")
    run = replace(a, summary=replace(a.summary, utilization={**a.summary.utilization, "workers": unknown}))
    assert {lane for lane, _ in totals(utilization([run]))} == {"host", "compute"}
