"""Busy shares of lanes, and the bound that the busiest of them sets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.metrics import account, bound_efficiency, busiest_lane, in_words, utilization, waits_by_cause
from labkit.trace import UnitSpan
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import Schedule, pipeline, run, schedules


def test_the_busy_share_counts_every_unit_of_a_lane_for_as_long_as_it_existed() -> None:
    spans = (UnitSpan("workers", 0, 0, 100), UnitSpan("workers", 1, 50, 100))
    trace = recorded(
        row(0, "decode", "workers", 0, 60), row(1, "decode", "workers", 70, 100, unit=1), spans=spans
    )
    share = utilization(account(trace), 0, 100)["workers"]
    assert (share.value, share.n, share.unit) == ((60 + 30) / 150, 2, "share")


def test_only_what_lies_in_the_window_counts() -> None:
    trace = recorded(row(0, "step", "compute", 0, 60), row(1, "step", "compute", 90, 200), until_ns=200)
    assert utilization(account(trace), 50, 100)["compute"].value == (10 + 10) / 50


def test_a_lane_that_did_not_exist_in_the_window_has_no_share_rather_than_zero() -> None:
    spans = (UnitSpan("compute", 0, 0, 100), UnitSpan("d2h", 0, 80, 100))
    trace = recorded(row(0, "step", "compute", 0, 60), spans=spans)
    shares = utilization(account(trace), 0, 50)
    assert (shares["d2h"].value, shares["d2h"].reason) == (None, "the lane d2h did not exist in the window")


def test_the_host_is_idle_while_it_waits() -> None:
    trace = run(lambda device: pipeline(device, 1, prefetch=0))
    assert utilization(account(trace), 0, trace.end_ns)["host"].value == 4 / 2001


@settings(max_examples=100, deadline=None)
@given(schedules(), st.integers(0, 2000), st.integers(1, 2000))
def test_the_busy_share_and_the_shares_of_waiting_make_one_in_any_window(
    schedule: Schedule, start: int, length: int
) -> None:
    accounts = account(schedule.trace())
    waits = waits_by_cause(accounts, start, start + length)
    for lane, share in utilization(accounts, start, start + length).items():
        if share.value is not None:
            assert share.value + sum(waits[lane].values()) == pytest.approx(1)
            assert sum(in_words(waits[lane]).values()) == pytest.approx(sum(waits[lane].values()))


def test_bound_efficiency_is_the_busy_share_of_the_busiest_lane_and_says_which() -> None:
    trace = run(lambda device: pipeline(device, 1, prefetch=0))
    shares = utilization(account(trace), 0, 2001)
    metric = bound_efficiency(shares)
    assert busiest_lane(shares) == "workers"
    assert metric.value == 1000 / 2001
    assert metric.definition.endswith("workers")


def test_the_host_does_not_count_as_the_busiest_lane() -> None:
    trace = recorded(row(0, "crop", "host", 0, 900), row(1, "step", "compute", 900, 1000, submit_ns=900))
    assert busiest_lane(utilization(account(trace), 0, 1000)) == "compute"


def test_where_nothing_ran_there_is_no_bound() -> None:
    metric = bound_efficiency(utilization(account(recorded()), 0, 1000))
    assert (metric.value, metric.reason) == (None, "no lane was busy in the window")
