"""The device contract: the same cases on every device.

The rigs (see conftest) are two simulated machines, the cpu device, the cuda device on a recording fake, and the
cuda device itself where there is a GPU.
"""

import gc
import random
import threading
import tracemalloc
import weakref
from collections import deque
from itertools import pairwise
from time import monotonic, sleep

import numpy as np
import psutil
import pytest

from labkit.device import Device
from labkit.errors import ContractError, DeviceError, OpCancelled, OpFailed, OpSkipped
from labkit.schedule import Handle, Status
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace

MS = 1_000_000
LANES = ("workers", "h2d", "compute", "d2h")
HANG_GUARD_S = 30


def wait_for_all(device: Device, handles: list[Handle]) -> None:
    """One at a time, in order."""
    for handle in handles:
        assert device.wait([handle]) == [handle]


def closed_trace(device: Device) -> Trace:
    """Close the device, check what holds for every trace, and hand it over."""
    device.close()
    trace = device.recorder.finish(device.now())
    check_trace(trace)
    return trace


def check_trace(trace: Trace) -> None:
    assert trace["op"].tolist() == list(range(len(trace))), "every id from 0 on, once each, in order"
    ops = trace["kind"] == KIND_OP
    ran = ops & (trace["start_ns"] >= 0)
    assert (trace["status"][ops] != Status.PENDING).all()
    assert (trace["start_ns"][ran] >= trace["submit_ns"][ran]).all()
    assert (trace["end_ns"][ran] > trace["start_ns"][ran]).all()
    assert (trace["queued_ns"] >= trace["submit_ns"]).all()
    assert ran[ops & (trace["status"] == Status.OK)].all() if ops.any() else True
    assert (trace["items"][trace["status"] != Status.OK] == 0).all()
    check_dependencies(trace)
    check_waits(trace)
    check_units(trace)


def check_dependencies(trace: Trace) -> None:
    """Rows are ids here, because none is missing."""
    for row in np.flatnonzero(trace["kind"] == KIND_OP):
        deps = trace.deps(row)
        assert (deps < row).all()
        if trace["status"][row] in (Status.OK, Status.FAILED):
            assert (trace["status"][deps] == Status.OK).all()
        if trace["start_ns"][row] >= 0:
            assert (trace["end_ns"][deps] <= trace["start_ns"][row]).all()


def check_waits(trace: Trace) -> None:
    for row in np.flatnonzero(trace["kind"] == KIND_WAIT):
        woke_by = trace["woke_by"][row]
        assert trace.lane_of(row) == "host"
        assert woke_by == -1 or woke_by in trace.deps(row)
        assert woke_by == -1 or trace["end_ns"][woke_by] <= trace["end_ns"][row]
    for row in np.flatnonzero(trace["kind"] == KIND_LAUNCH):
        assert trace.lane_of(row) == "host" and len(trace.deps(row)) == 1


def check_units(trace: Trace) -> None:
    """Slices of one unit do not overlap, and lie within a time at which that unit existed."""
    spans = {}
    for span in trace.units:
        assert span.open_ns <= span.close_ns
        spans.setdefault((span.lane, span.unit), []).append((span.open_ns, span.close_ns))
    assert ("host", 0) in spans
    for lane in trace.lanes:
        rows = trace.rows_on(lane)
        for unit in set(trace["unit"][rows].tolist()):
            mine = rows[trace["unit"][rows] == unit]
            slices = sorted(
                zip(trace["start_ns"][mine].tolist(), trace["end_ns"][mine].tolist(), strict=True)
            )
            assert all(first[1] <= second[0] for first, second in pairwise(slices))
            for start, end in slices:
                assert any(opened <= start and end <= closed for opened, closed in spans[lane, unit])


# ---- order and dependencies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("role", LANES)
def test_ops_of_a_lane_start_in_the_order_of_submission(rig, role):
    device = rig.open()
    handles = [device.submit(rig.op("op", role, MS // 4)) for _ in range(12)]
    wait_for_all(device, handles)
    starts = [handle.start_ns for handle in handles]
    assert starts == sorted(starts)
    assert closed_trace(device)["status"].tolist() == [Status.OK] * 24


def test_an_op_starts_after_the_end_of_everything_it_depends_on_across_lanes(rig):
    device = rig.open()
    loads = [device.submit(rig.op("load", "workers", 2 * MS)) for _ in range(2)]
    copy = device.submit(rig.op("copy", "h2d", MS), *loads)
    step = device.submit(rig.op("step", "compute", MS), copy, after=(loads[0],))
    back = device.submit(rig.op("back", "d2h", MS), step)
    assert device.wait([back]) == [back]
    assert copy.start_ns >= loads[1].end_ns
    assert step.start_ns >= copy.end_ns
    assert back.start_ns >= step.end_ns
    trace = closed_trace(device)
    assert trace.deps(step.id).tolist() == [copy.id, loads[0].id]


def test_two_lanes_of_one_role_run_side_by_side(rig):
    device = rig.open()
    first = device.submit(rig.op("first", "compute", 40 * MS, index=0))
    second = device.submit(rig.op("second", "compute", 40 * MS, index=1))
    wait_for_all(device, [first, second])
    assert first.start_ns < second.end_ns and second.start_ns < first.end_ns
    assert {"compute", "compute1"} <= set(closed_trace(device).lanes)


def test_an_op_on_the_host_lane_runs_inside_submit(rig):
    device = rig.open()
    before = device.now()
    handle = device.submit(rig.op("log", "host", 3 * MS, value=7))
    assert (handle.done, handle.seen, handle.value) == (True, True, 7)
    assert before <= handle.start_ns < handle.end_ns <= device.now()
    trace = closed_trace(device)
    assert trace.lane_of(0) == "host"
    assert trace["queued_ns"][0] == trace["end_ns"][0]


def test_an_op_on_the_host_lane_waits_for_what_it_depends_on(rig):
    device = rig.open()
    load = device.submit(rig.op("load", "workers", 3 * MS))
    step = device.submit(rig.op("step", "compute", 3 * MS), load)
    log = device.submit(rig.op("log", "host", MS), step)
    assert log.start_ns >= step.end_ns >= load.end_ns
    closed_trace(device)


@pytest.mark.parametrize("role", LANES)
def test_a_blocking_op_holds_the_host_until_its_end_and_its_wait_is_in_the_trace(rig, role):
    device = rig.open()
    load = device.submit(rig.op("load", "workers", 2 * MS))
    handle = device.submit(rig.op("read", role, 2 * MS, value=5, blocking=True), load)
    assert handle.done and handle.value == 5
    assert device.now() >= handle.end_ns
    trace = closed_trace(device)
    waits = [row for row in np.flatnonzero(trace["kind"] == KIND_WAIT) if trace["woke_by"][row] == handle.id]
    assert len(waits) == 1 and waits[0] > handle.id


def test_a_stream_op_that_needs_a_thread_op_runs_while_the_host_only_waits_for_the_last_of_a_chain(rig):
    device = rig.open()
    load = device.submit(rig.op("load", "workers", 2 * MS))
    copy = device.submit(rig.op("copy", "h2d", MS), load)
    check = device.submit(rig.op("check", "disk", MS), copy)
    step = device.submit(rig.op("step", "compute", MS), check)
    last = device.submit(rig.op("write", "net", MS), step)
    assert device.wait([last]) == [last]
    assert [handle.status for handle in (load, copy, check, step, last)] == [Status.OK] * 5
    closed_trace(device)


def test_close_runs_what_has_been_submitted_and_never_waited_for(rig):
    device = rig.open()
    load = device.submit(rig.op("load", "workers", 3 * MS))
    copy = device.submit(rig.op("copy", "h2d", MS), load)
    device.submit(rig.op("step", "compute", MS, items=4), copy)
    assert device.close() == []
    assert closed_trace(device)["items"].max() == 4


# ---- values --------------------------------------------------------------------------------------------------


def test_values_of_handles_reach_run_as_arguments_and_other_arguments_as_they_are(live_rig):
    device = live_rig.open()
    two = device.submit(live_rig.op("two", "workers", MS, value=2))
    three = device.submit(live_rig.op("three", "h2d", MS, value=3))
    extra = device.submit(live_rig.op("extra", "d2h", 0, value=100))
    total = live_rig.op("total", "compute", 0, do=lambda *values: values)
    handle = device.submit(total, two, "plain", three, after=(extra,))
    device.wait([handle])
    assert handle.value == (2, "plain", 3)


def test_a_value_read_before_wait_returned_its_handle_is_a_contract_error(rig):
    device = rig.open()
    handle = device.submit(rig.op("load", "workers", MS, value=2))
    with pytest.raises(ContractError, match=r"'load' \(op 0\) was read before wait\(\) returned"):
        _ = handle.value
    device.wait([handle])
    assert handle.value == 2


# ---- wait ----------------------------------------------------------------------------------------------------


def test_wait_returns_as_soon_as_one_is_done(rig):
    device = rig.open()
    long = device.submit(rig.op("long", "workers", 300 * MS))
    quick = device.submit(rig.op("quick", "disk", MS))
    assert device.wait([long, quick]) == [quick]
    assert device.wait([long, quick]) == [quick]
    assert device.wait([long]) == [long]


@pytest.mark.parametrize("how", ["block", "spin"])
def test_wait_gives_up_at_its_deadline_and_time_has_passed(rig, how):
    device = rig.open()
    handle = device.submit(rig.op("long", "compute", 200 * MS))
    until = device.now() + 5 * MS
    assert device.wait([handle], until=until, how=how) == []
    assert until <= device.now() < until + 190 * MS
    assert device.wait([handle], how=how) == [handle]
    trace = closed_trace(device)
    assert trace["woke_by"].tolist() == [-1, -1, handle.id]


def test_wait_for_nothing_passes_the_time_and_a_past_deadline_returns_at_once(rig):
    device = rig.open()
    until = device.now() + 3 * MS
    assert device.wait([], until=until) == []
    after = device.now()
    assert after >= until
    assert device.wait([], until=until) == []
    assert device.now() < after + 100 * MS
    closed_trace(device)


def test_wait_with_a_deadline_returns_what_is_done_by_then(rig):
    device = rig.open()
    handle = device.submit(rig.op("quick", "compute", MS))
    assert device.wait([handle], until=device.now() + 20_000 * MS) == [handle]


def test_wait_for_nothing_and_no_time_is_a_contract_error(rig):
    device = rig.open()
    with pytest.raises(ContractError, match=r"wait\(\[\]\) without a time"):
        device.wait([])


def test_a_host_that_spins_does_not_starve_the_thread_lanes(rig):
    """A spinning host that kept the interpreter's lock would cost each hand-over 5 ms: 200 of them 1 s and more."""
    device = rig.open()

    def hand_over() -> None:
        for _ in range(20):
            sleep(0)

    started = monotonic()
    for _ in range(10):
        handle = device.submit(rig.op("load", "workers", 0, do=hand_over))
        assert device.wait([handle], how="spin") == [handle]
    assert monotonic() - started < 0.5


# ---- failures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["host", *LANES])
def test_a_failure_is_kept_and_skips_what_depends_on_it_and_wait_never_raises(rig, role):
    device = rig.open()
    cause = ValueError("boom")
    broken = device.submit(rig.op("decode", role, MS, error=cause, items=3))
    child = device.submit(rig.op("copy", "h2d", MS), broken)
    grandchild = device.submit(rig.op("step", "compute", MS, items=1), child)
    cousin = device.submit(rig.op("log", "workers", MS), after=(grandchild,))
    bystander = device.submit(rig.op("other", "h2d", MS, value=1))
    wait_for_all(device, [broken, child, grandchild, cousin, bystander])
    assert [handle.status for handle in (broken, child, grandchild, cousin)] == [Status.FAILED] + [
        Status.SKIPPED
    ] * 3
    assert device.failed
    with pytest.raises(OpFailed, match=r"'decode'.*boom") as raised:
        _ = broken.value
    assert raised.value.cause is cause and raised.value.__cause__ is cause
    with pytest.raises(OpSkipped) as raised:
        _ = cousin.value
    assert raised.value.cause is cause
    assert bystander.value == 1
    assert not device.failed, "somebody has read why: the program goes on"
    closed_trace(device)


def test_close_reports_the_failures_that_nobody_read_and_only_those(rig):
    device = rig.open()
    read = device.submit(rig.op("read", "workers", MS, error=ValueError("read")))
    unread = device.submit(rig.op("unread", "compute", MS, error=ValueError("unread")))
    skipped = device.submit(rig.op("skipped", "h2d", MS), unread)
    never_awaited = device.submit(rig.op("never awaited", "d2h", MS, error=ValueError("never")))
    fine = device.submit(rig.op("fine", "workers", MS))
    wait_for_all(device, [read, unread, skipped, fine])
    with pytest.raises(OpFailed):
        _ = read.value
    failures = device.close()
    assert [(failure.op, failure.name) for failure in failures] == [(1, "unread"), (3, "never awaited")]
    assert [str(failure.error) for failure in failures] == ["unread", "never"]
    assert device.close() == failures
    assert never_awaited.status is Status.FAILED


def test_a_device_on_which_nothing_failed_says_so(rig):
    device = rig.open()
    wait_for_all(device, [device.submit(rig.op("fine"))])
    assert not device.failed
    assert device.close() == []


def test_a_failed_op_keeps_no_frame_of_its_own_alive(live_rig):
    """Also not by way of the exception that it came from."""

    class Big:
        pass

    alive: list[weakref.ref] = []

    def fail() -> None:
        big = Big()
        alive.append(weakref.ref(big))
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner

    device = live_rig.open()
    for role in ("workers", "compute", "host"):
        handle = device.submit(live_rig.op("fail", role, 0, do=fail))
        device.wait([handle])
        assert isinstance(handle.error, ValueError) and isinstance(handle.error.__cause__, KeyError)
    assert_dies(*alive)


def test_a_closed_device_takes_no_more_ops(rig):
    device = rig.open()
    wait_for_all(device, [device.submit(rig.op("load"))])
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.submit(rig.op("load"))


# ---- cancel --------------------------------------------------------------------------------------------------


def pipeline(device: Device, rig, steps: int, submitted: list[Handle], between=lambda: None) -> None:
    """Load, copy and step, three in flight; a log on the host and a blocking read every so often."""
    running: deque[Handle] = deque()
    for step in range(steps):
        between()
        load = device.submit(rig.op("load", "workers", MS, step=step))
        between()
        copy = device.submit(rig.op("copy", "h2d", MS // 2, step=step, blocking=step % 5 == 4), load)
        between()
        running.append(device.submit(rig.op("step", "compute", MS, step=step, items=1), copy))
        submitted += [load, copy, running[-1]]
        if step % 3 == 2:
            submitted.append(device.submit(rig.op("log", "host", MS // 4, step=step), running[-1]))
        between()
        while len(running) > 3:
            device.wait([running.popleft()])


@pytest.mark.parametrize("seed", range(8))
def test_cancel_at_any_point_drops_what_has_not_started_and_leaves_nothing_behind(rig, seed):
    chance = random.Random(seed)
    before = threading.active_count()
    device = rig.open({"workers": chance.randint(1, 3)})
    submitted: list[Handle] = []
    if rig.live:
        timer = threading.Timer(chance.uniform(0, 0.03), device.cancel)
        timer.start()
        pipeline(device, rig, 30, submitted)
        timer.join()
    else:
        verbs, cancel_at = iter(range(10**6)), chance.randint(0, 120)
        pipeline(device, rig, 30, submitted, lambda: device.cancel() if next(verbs) == cancel_at else None)
    device.cancel()
    assert device.wait(submitted[-1:]) in ([], submitted[-1:])
    late = [device.submit(rig.op("late", role, MS), submitted[-1]) for role in ("host", *LANES)]
    assert [handle.status for handle in late] == [Status.CANCELLED] * 5
    assert device.wait(late[1:2]) in ([], late[1:2])
    failures = device.close()
    assert failures == [] and device.close() == []
    trace = closed_trace(device)
    assert set(trace["status"].tolist()) <= {Status.OK, Status.CANCELLED, Status.SKIPPED}
    assert (trace["start_ns"][trace["status"] == Status.CANCELLED] == -1).all()
    with pytest.raises(OpCancelled):
        _ = late[0].value
    assert threading.active_count() == before


def test_cancel_wakes_a_host_that_waits(live_rig):
    device = live_rig.open()
    handle = device.submit(live_rig.op("long", "compute", 300 * MS))
    threading.Timer(0.02, device.cancel).start()
    until = device.now() + 20_000 * MS
    device.wait([], until=until)
    assert device.now() < until
    assert device.wait([handle]) in ([], [handle])
    device.close()
    assert handle.status is Status.OK, "what was running has ended"


def test_cancel_may_be_called_before_anything_and_more_than_once(rig):
    device = rig.open()
    device.cancel()
    device.cancel()
    handle = device.submit(rig.op("load"))
    assert device.wait([handle]) == [handle]
    with pytest.raises(OpCancelled):
        _ = handle.value
    assert device.close() == []
    assert closed_trace(device)["status"][0] == Status.CANCELLED


def test_a_failure_that_cancel_came_before_is_not_reported(rig):
    device = rig.open()
    first = device.submit(rig.op("long", "compute", 30 * MS))
    device.submit(rig.op("broken", "compute", MS, error=ValueError("boom")), first)
    gate = device.submit(rig.op("gate", "workers", 30 * MS))
    behind = device.submit(rig.op("broken", "workers", MS, error=ValueError("boom")), gate)
    device.wait([], until=device.now() + MS)
    device.cancel()
    reported = {failure.op for failure in device.close()}
    assert behind.id not in reported


# ---- widths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_lane_runs_as_many_ops_at_once_as_it_has_units_and_no_more(rig, width):
    device = rig.open({"workers": width})
    handles = [device.submit(rig.op("load", "workers", 20 * MS)) for _ in range(2 * width)]
    wait_for_all(device, handles)
    trace = closed_trace(device)
    assert peak_overlap(trace, "workers") == width
    assert {span.unit for span in trace.units if span.lane == "workers"} == set(range(width))


def peak_overlap(trace: Trace, lane: str) -> int:
    rows = trace.rows_on(lane)
    edges = [(time, 1) for time in trace["start_ns"][rows]] + [(time, -1) for time in trace["end_ns"][rows]]
    running, peak = 0, 0
    for _, change in sorted(edges):
        running += change
        peak = max(peak, running)
    return peak


def test_resizing_up_and_down_keeps_the_order_and_loses_no_op(rig):
    device = rig.open({"workers": 1})
    handles = []
    for width in (1, 3, 2, 4, 1, 2):
        device.resize("workers", width)
        handles += [device.submit(rig.op("load", "workers", MS)) for _ in range(6)]
    wait_for_all(device, handles)
    trace = closed_trace(device)
    rows = trace.rows_on("workers")
    assert len(rows) == 36 and (trace["status"][rows] == Status.OK).all()
    for unit in set(trace["unit"][rows].tolist()):
        mine = rows[trace["unit"][rows] == unit]
        assert (np.diff(trace["start_ns"][mine]) > 0).all()
    opened = {}
    for span in trace.units:
        assert span.open_ns >= opened.get((span.lane, span.unit), 0)
        opened[span.lane, span.unit] = span.close_ns
    assert sum(span.lane == "workers" for span in trace.units) >= 4


def test_a_lane_opened_after_a_resize_has_the_new_width(rig):
    device = rig.open({"workers": 1})
    device.resize("workers", 2)
    handles = [device.submit(rig.op("load", "workers", 20 * MS)) for _ in range(2)]
    wait_for_all(device, handles)
    assert peak_overlap(closed_trace(device), "workers") == 2


@pytest.mark.parametrize("width", [0, -1])
def test_a_lane_without_units_is_refused(rig, width):
    with pytest.raises(DeviceError, match=f"width {width} of lane 'workers' is not allowed"):
        rig.open().resize("workers", width)


# ---- what a run leaves behind ----------------------------------------------------------------------------------


def assert_dies(*references: weakref.ref) -> None:
    """What they point to is gone; a lane's thread may need a moment to leave the op."""
    deadline = monotonic() + HANG_GUARD_S
    while any(reference() is not None for reference in references):
        gc.collect()
        assert monotonic() < deadline, "something still holds on to it"
        sleep(0.001)


class Batch:
    """Something a weak reference can point to."""


@pytest.mark.parametrize("role", LANES)
def test_arguments_and_values_are_freed_once_the_op_has_ended_and_the_kernel_lets_go(rig, role):
    device = rig.open()
    batch, value = Batch(), Batch()
    references = [weakref.ref(batch), weakref.ref(value)]
    made = device.submit(rig.op("make", "workers", MS, value=value))
    used = device.submit(rig.op("use", role, MS), made, batch)
    wait_for_all(device, [made, used])
    del batch, value, made
    assert_dies(*references)
    assert used.status is Status.OK


def test_work_in_flight_is_bounded_by_the_waits_of_the_kernel(rig):
    device = rig.open()
    in_flight: deque[Handle] = deque()
    for depth in [8] * 12 + [0] * 4:
        in_flight.append(device.submit(rig.op("step", "compute", MS // 2)))
        while len(in_flight) > depth:
            device.wait([in_flight.popleft()])
        assert sum(not handle.seen for handle in in_flight) <= depth
    assert not in_flight
    trace = closed_trace(device)
    rows = trace.rows_on("compute")
    submits, ends = trace["submit_ns"][rows], trace["end_ns"][rows]
    unended = [int((ends[:place] > submit).sum()) for place, submit in enumerate(submits)]
    assert max(unended) <= 8 and unended[-3:] == [0, 0, 0]


def test_memory_is_flat_however_many_steps_a_run_has(rig):
    steps = 10_000 if "cuda" in rig.name and rig.live else 20_000 if rig.live else 100_000
    device = rig.open({"workers": 2}, cap=64)
    load, step = rig.op("load", "workers", 0), rig.op("step", "compute", 0)
    running: deque[Handle] = deque()

    def go_on(steps: int) -> int:
        for _ in range(steps):
            running.append(device.submit(step, device.submit(load, bytearray(64))))
            if len(running) > 4:
                device.wait([running.popleft()])
        while running:
            device.wait([running.popleft()])
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    go_on(500)
    tracemalloc.start()
    try:
        early = go_on(steps // 10)
        late = go_on(steps - steps // 10)
    finally:
        tracemalloc.stop()
    assert late - early < 100_000, "bytes that a run gathered over its steps"
    assert device.recorder.dropped > 2 * steps


def test_threads_and_processes_are_as_many_after_close_as_before_open(rig):
    threads, processes = threading.active_count(), len(psutil.Process().children(recursive=True))
    for _ in range(3):
        device = rig.open({"workers": 3})
        handles = [device.submit(rig.op("op", role, MS // 4)) for role in (*LANES, "disk", "net")]
        wait_for_all(device, handles)
        device.close()
    assert threading.active_count() == threads
    assert len(psutil.Process().children(recursive=True)) == processes


def test_the_trace_names_every_verb_once_and_the_host_is_a_lane_of_it(rig):
    device = rig.open()
    load = device.submit(rig.op("load", "workers", 2 * MS, step=4, items=0))
    log = device.submit(rig.op("log", "host", MS))
    device.wait([load, log])
    device.wait([load])
    device.wait([], until=device.now() + MS)
    trace = closed_trace(device)
    assert trace.frame()[["op", "name", "lane", "deps"]].to_records(index=False).tolist() == [
        (0, "load", "workers", ()),
        (1, "log", "host", ()),
        (2, "wait", "host", (0, 1)),
        (3, "wait", "host", (0,)),
        (4, "wait", "host", ()),
    ]
    assert trace["woke_by"][[3, 4]].tolist() == [0, -1]
    assert trace["step"].tolist() == [4, -1, -1, -1, -1]
    assert trace.meta["device"] == device.name
    assert trace.meta["measured"] is rig.live
    assert trace.meta["device_label"]


def test_every_lane_has_an_honest_label(rig):
    device = rig.open()
    from labkit.schedule import Lane

    for role in ("host", "workers", "h2d", "compute", "d2h", "disk", "net"):
        label = device.label(Lane(role))
        assert label
        assert ("simulated" in label) is not rig.live
        assert "GPU" not in label or "cuda" in rig.name


# ---- anything at all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_keeps_every_promise(rig, seed):
    chance = random.Random(seed)
    device = rig.open({"workers": chance.randint(1, 3)})
    handles: list[Handle] = []
    for _ in range(60):
        draw = chance.random()
        if draw < 0.7 or not handles:
            role = chance.choice(["host", "disk", *LANES])
            error = ValueError("boom") if chance.random() < 0.05 else None
            op = rig.op(
                "op", role, chance.randint(1, MS // 2), error=error, items=1, blocking=chance.random() < 0.05
            )
            deps = chance.sample(handles[-8:], min(len(handles), chance.choice([0, 1, 1, 2, 3])))
            cut = chance.randint(0, len(deps))
            handles.append(device.submit(op, *deps[:cut], after=deps[cut:]))
        elif draw < 0.9:
            device.wait(chance.sample(handles, min(len(handles), 3)), how=chance.choice(["block", "spin"]))
        elif draw < 0.95:
            device.wait(handles[-1:], until=device.now() + chance.randint(0, MS))
        else:
            device.resize("workers", chance.randint(1, 4))
    wait_for_all(device, handles)
    failed = [handle.id for handle in handles if handle.status is Status.FAILED]
    assert sorted(failure.op for failure in device.close()) == failed
    trace = closed_trace(device)
    for handle in handles:
        assert trace["status"][handle.id] == handle.status
        broken = (trace["status"][trace.deps(handle.id)] != Status.OK).any()
        assert (handle.status is Status.SKIPPED) == broken
