"""How long lanes were busy at the same time."""

import numpy as np
from hypothesis import given, settings

from labkit.metrics import overlap
from labkit.metrics.overlap import role_of
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import Schedule, pipeline, run, schedules


def test_two_lanes_overlap_while_both_are_busy() -> None:
    trace = recorded(
        row(0, "decode", "workers", 0, 100),
        row(1, "step", "compute", 60, 160),
        row(2, "decode", "workers", 140, 200),
    )
    found = overlap(trace, 0, 1000)
    assert found.both_ns["compute", "workers"] == 40 + 20
    assert found.share.value == 60 / 200
    assert overlap(trace, 80, 150).both_ns["compute", "workers"] == 20 + 10


def test_a_lane_counts_once_however_many_of_its_units_are_busy() -> None:
    trace = recorded(row(0, "decode", "workers", 0, 100), row(1, "decode", "workers", 0, 100, unit=1))
    assert overlap(trace, 0, 1000).share.value == 0
    assert overlap(trace, 0, 1000).share.n == 1


def test_the_host_and_the_disk_are_paired_but_are_no_stages() -> None:
    trace = recorded(
        row(0, "crop", "host", 0, 100), row(1, "step", "compute", 0, 50), row(2, "read", "disk", 0, 30)
    )
    found = overlap(trace, 0, 1000)
    assert found.both_ns == {("compute", "disk"): 30, ("compute", "host"): 50, ("disk", "host"): 30}
    assert found.share.value == 0


def test_where_no_stage_was_busy_there_is_no_share() -> None:
    assert overlap(recorded(), 0, 1000).share.value is None
    assert overlap(recorded(), 0, 1000).both_ns == {}


def test_a_synchronous_pipeline_does_not_overlap_and_a_prefetching_one_does() -> None:
    alone, ahead = (run(lambda device, depth=depth: pipeline(device, 20, depth)) for depth in (0, 2))
    assert overlap(alone, 0, alone.end_ns).share.value == 0
    assert overlap(ahead, 1, 20_001).share.value == 19 * 1000 / 20_000, (
        "from the second decode on something else is running too"
    )


def test_a_lane_has_the_role_that_its_name_begins_with() -> None:
    assert [role_of(lane) for lane in ("compute", "compute1", "h2d", "h2d12")] == [
        "compute",
        "compute",
        "h2d",
        "h2d",
    ]


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_the_sweep_agrees_with_counting_instant_by_instant(schedule: Schedule) -> None:
    trace = schedule.trace()
    busy = {lane: np.zeros(trace.end_ns, bool) for lane in trace.lanes if lane != "host"}
    for lane, instants in busy.items():
        for each in trace.rows_on(lane):
            instants[trace["start_ns"][each] : trace["end_ns"][each]] = True
    found = overlap(trace, 0, trace.end_ns)
    for (one, other), both_ns in found.both_ns.items():
        if "host" not in (one, other):
            assert both_ns == (busy[one] & busy[other]).sum()
    counts = np.sum([mask for lane, mask in busy.items()], axis=0) if busy else np.zeros(0)
    assert found.share.value == ((counts > 1).sum() / (counts > 0).sum() if (counts > 0).any() else None)
