"""An op whose work another process did: the slice shows when that was, and the value is what came out."""

from collections.abc import Callable
from time import perf_counter_ns, sleep
from typing import Any

import pytest

from labkit.metrics.stalls import account
from labkit.schedule import Elsewhere, Handle, Lane, Op
from labkit.trace import Trace

MS = 1_000_000


def slice_of(trace: Trace, handle: Handle) -> tuple[int, int]:
    row = trace["op"].tolist().index(handle.id)
    return int(trace["start_ns"][row]), int(trace["end_ns"][row])


def finished(device: Any) -> Trace:
    assert device.close() == []
    trace = device.recorder.finish(device.now())
    for unit in account(trace):  # raises where slices overlap, or lie outside their unit's time
        assert unit.busy_ns + sum(end - start for start, end, _ in unit.stalls) == unit.span_ns
    return trace


def test_the_slice_has_the_times_of_the_work_and_the_wait_for_it_is_not_in_it(live_rig) -> None:
    seen: list[Elsewhere] = []

    def run() -> Elsewhere:
        began = perf_counter_ns()
        sleep(0.002)
        seen.append(Elsewhere("made", began, perf_counter_ns()))
        sleep(0.002)
        return seen[-1]

    device = live_rig.open()
    opened_ns = device._epoch_ns
    handle = device.submit(Op("load", Lane("workers"), run))
    device.wait([handle])
    assert handle.value == "made"
    work = (seen[0].start_ns - opened_ns, seen[0].end_ns - opened_ns)
    assert (handle.start_ns, handle.end_ns) == work
    trace = finished(device)
    assert slice_of(trace, handle) == work
    assert trace.end_ns - work[1] >= 2 * MS, "the hand-over lies after the slice"


def test_what_depends_on_it_is_given_the_value_alone(live_rig) -> None:
    device = live_rig.open()
    made = device.submit(Op("load", Lane("workers"), lambda: Elsewhere(41, perf_counter_ns(), perf_counter_ns() + 1)))
    more = device.submit(Op("more", Lane("compute"), lambda value: value + 1), made)
    device.wait([more])
    assert more.value == 42
    finished(device)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(lambda now: (0, 1), id="before the op was submitted"),
        pytest.param(lambda now: (now + 10**12, now + 2 * 10**12), id="after it came back"),
        pytest.param(lambda now: (now, now), id="no time at all"),
        pytest.param(lambda now: (now, now - 5 * MS), id="backwards"),
        pytest.param(lambda now: (0, now + 10**12), id="all the time there is"),
    ],
)
def test_impossible_times_are_kept_within_the_time_for_which_the_thread_was_taken(live_rig, times: Callable) -> None:
    device = live_rig.open({"workers": 2})
    handles = [
        device.submit(Op("load", Lane("workers"), lambda: Elsewhere(None, *times(perf_counter_ns())))) for _ in range(9)
    ]
    for handle in handles:
        device.wait([handle])
    trace = finished(device)
    for row in range(9):
        assert trace["submit_ns"][row] <= trace["start_ns"][row] < trace["end_ns"][row]


def test_on_the_hosts_own_lane_the_slice_is_the_time_for_which_the_host_was_held(live_rig) -> None:
    def run() -> Elsewhere:
        sleep(0.003)
        now = perf_counter_ns()
        return Elsewhere("made", now - 1000, now)

    device = live_rig.open()
    handle = device.submit(Op("load", Lane("host"), run))
    assert handle.value == "made"
    start, end = slice_of(finished(device), handle)
    assert end - start >= 3 * MS
