"""Busy slices and stalls make up the time of every unit, exactly, and every stall has its cause."""

from time import sleep

import pytest
from hypothesis import given, settings

from labkit.device.cpu import CpuDevice
from labkit.device.simulated import SimulatedDevice
from labkit.errors import TraceError
from labkit.metrics import Cause, Stall, account
from labkit.schedule import Lane, Op
from labkit.trace import KIND_LAUNCH, KIND_WAIT, Trace, UnitSpan
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import Schedule, machine, op, pipeline, run, schedules


def assert_accounts_add_up(trace: Trace) -> None:
    """Stalls and slices partition each span: stalls lie in order, apart, inside, and cut no slice."""
    accounts = account(trace)
    assert [(unit.lane, unit.unit, unit.span_ns) for unit in accounts] == sorted_spans(trace)
    for unit in accounts:
        assert unit.busy_ns + sum(end - start for start, end, _ in unit.stalls) == unit.span_ns
        edges = [
            unit.open_ns,
            *[edge for stall in unit.stalls for edge in stall[:2]],
            unit.open_ns + unit.span_ns,
        ]
        assert edges == sorted(edges)
        assert all(end > start for start, end, _ in unit.stalls)
    lanes = {unit.lane for unit in accounts} - {"host"}
    for lane in lanes:
        rows = trace.rows_on(lane)
        busy = int((trace["end_ns"][rows] - trace["start_ns"][rows]).sum())
        assert sum(unit.busy_ns for unit in accounts if unit.lane == lane) == busy


def sorted_spans(trace: Trace) -> list[tuple[str, int, int]]:
    spans = [span for span in trace.units if span.close_ns > span.open_ns]
    return [(span.lane, span.unit, span.close_ns - span.open_ns) for span in spans]


@settings(max_examples=200, deadline=None)
@given(schedules())
def test_the_parts_make_the_whole_of_any_simulated_run(schedule: Schedule) -> None:
    assert_accounts_add_up(schedule.trace())


def test_the_parts_make_the_whole_of_a_run_of_threads() -> None:
    def slow(ns: int, fails: bool = False):
        def work(*_: object) -> None:
            sleep(ns / 1e9)
            if fails:
                raise RuntimeError("broken")

        return work

    device = CpuDevice(widths={"workers": 2})
    for step in range(20):
        loaded = device.submit(Op("decode", Lane("workers"), slow(200_000, fails=step == 7), step=step))
        crop = device.submit(Op("crop", Lane("host"), slow(50_000), step=step), loaded)
        copied = device.submit(Op("copy", Lane("h2d"), slow(30_000), step=step, blocking=step % 5 == 0), crop)
        device.wait([device.submit(Op("update", Lane("compute"), slow(100_000), step=step, items=1), copied)])
        if step == 10:
            device.resize("workers", 4)
    device.close()
    assert_accounts_add_up(device.recorder.finish(device.now()))


def stalls_of(trace: Trace, lane: str) -> list[tuple[int, int, Cause]]:
    return [tuple(stall) for unit in account(trace) if unit.lane == lane for stall in unit.stalls]


def test_a_gap_before_an_op_is_charged_to_its_dependency_and_the_rest_to_dispatch() -> None:
    trace = run(lambda device: pipeline(device, 1, prefetch=0), on=machine(dispatch_ns=20))
    decode = Cause("dependency", "decode", "workers", "decode", "workers")
    assert stalls_of(trace, "h2d") == [
        (0, 1021, decode),
        (1021, 1041, Cause("dispatch")),
        (1141, 2081, Cause("end")),
    ]


def test_behind_a_short_dependency_stands_the_op_that_took_the_time() -> None:
    trace = run(lambda device: pipeline(device, 1, prefetch=0))
    assert stalls_of(trace, "compute") == [(0, 1101, Cause("dependency", "copy", "h2d", "decode", "workers"))]
    assert Cause("dependency", "copy", "h2d", "decode", "workers").text == "waiting for workers: decode"


def test_a_lane_to_which_nothing_was_submitted_waits_for_what_the_host_waited_for() -> None:
    trace = run(lambda device: pipeline(device, 2, prefetch=0))
    assert stalls_of(trace, "workers")[1] == (1001, 2002, Cause("host", "update", "compute"))
    assert Cause("host", "update", "compute").text == "waiting for host, itself waiting for update"


def inline_between(device: SimulatedDevice) -> None:
    device.submit(op("first", "compute", 10))
    device.submit(op("augment", "host", 500))
    device.wait([device.submit(op("second", "compute", 10))])


def test_a_lane_waits_for_what_the_host_ran_inline() -> None:
    trace = run(inline_between)
    assert stalls_of(trace, "compute")[1] == (11, 503, Cause("host", "augment", "host"))
    assert Cause("host", "augment", "host").text == "waiting for host: augment"


def test_before_the_first_verb_a_lane_waits_for_the_run_to_start() -> None:
    trace = recorded(row(0, "step", "compute", 410, 500, submit_ns=400, queued_ns=410), until_ns=500)
    assert stalls_of(trace, "compute") == [(0, 410, Cause("start"))]
    assert stalls_of(trace, "host") == [(0, 400, Cause("start")), (410, 500, Cause("end"))]


def test_a_gap_between_two_verbs_of_the_host_is_its_program() -> None:
    trace = recorded(
        row(0, "one", "compute", 10, 20, submit_ns=0),
        row(1, "two", "compute", 310, 400, submit_ns=310),
        until_ns=400,
    )
    assert stalls_of(trace, "compute") == [
        (0, 10, Cause("dispatch")),
        (20, 310, Cause("host", "host program", "host")),
    ]


def test_launching_other_ops_holds_a_lane_up_as_well() -> None:
    trace = recorded(
        row(0, "step", "compute", 300, 350, submit_ns=0, queued_ns=300),
        row(1, "copy", "h2d", 310, 320, submit_ns=300, queued_ns=310),
        until_ns=350,
    )
    assert stalls_of(trace, "h2d")[0] == (0, 310, Cause("host", "launching", "host"))


def test_an_op_launched_late_is_charged_to_its_dependency_then_to_the_host_then_to_dispatch() -> None:
    trace = recorded(
        row(0, "decode", "workers", 10, 500, submit_ns=0, queued_ns=10),
        row(1, "copy", "h2d", 590, 600, submit_ns=20, queued_ns=30, deps=(0,)),
        row(2, "wait", "host", 40, 510, kind=KIND_WAIT, deps=(0,), woke_by=0),
        row(3, "launch", "host", 515, 580, kind=KIND_LAUNCH, deps=(1,), queued_ns=580),
        until_ns=600,
    )
    assert stalls_of(trace, "h2d") == [
        (0, 500, Cause("dependency", "decode", "workers", "decode", "workers")),
        (500, 580, Cause("host", "launching", "host")),
        (580, 590, Cause("dispatch")),
    ]


def test_the_host_is_busy_but_for_its_waits_which_are_charged_to_what_ended_them() -> None:
    trace = run(lambda device: pipeline(device, 1, prefetch=0), on=machine(wake_ns=50))
    host = next(unit for unit in account(trace) if unit.lane == "host")
    assert host.stalls == (Stall(4, 2051, Cause("dependency", "update", "compute", "update", "compute")),)
    assert (host.busy_ns, host.span_ns) == (4, 2051)


def test_a_wait_until_a_set_time_says_so() -> None:
    trace = run(lambda device: device.wait([], until=700))
    assert stalls_of(trace, "host") == [(0, 700, Cause("deadline"))]


def test_an_inline_op_that_waits_for_its_input_stalls_the_host_before_it_runs() -> None:
    def program(device: SimulatedDevice) -> None:
        device.submit(op("augment", "host", 30), device.submit(op("read", "disk", 400)))

    trace = run(program)
    assert stalls_of(trace, "host") == [(1, 401, Cause("dependency", "read", "disk", "read", "disk"))]


def test_a_launch_in_the_midst_of_a_wait_is_busy_time_of_the_host() -> None:
    trace = recorded(
        row(0, "step", "compute", 200, 900, submit_ns=0, queued_ns=10),
        row(1, "wait", "host", 10, 910, kind=KIND_WAIT, deps=(0,), woke_by=0),
        row(2, "launch", "host", 100, 180, kind=KIND_LAUNCH, deps=(0,)),
        until_ns=910,
    )
    cause = Cause("dependency", "step", "compute", "step", "compute")
    assert stalls_of(trace, "host") == [(10, 100, cause), (180, 910, cause)]


def test_skipped_ops_occupy_nothing() -> None:
    def program(device: SimulatedDevice) -> None:
        broken = device.submit(op("decode", "workers", 100, simulated_value=RuntimeError("broken")))
        device.wait([device.submit(op("copy", "h2d", 50), broken)])

    assert stalls_of(run(program), "h2d") == [(0, 101, Cause("end"))]


def test_a_unit_that_came_later_is_accounted_for_from_then_on() -> None:
    def program(device: SimulatedDevice) -> None:
        device.wait([device.submit(op("decode", "workers", 100))])
        device.resize("workers", 2)
        device.wait([device.submit(op("decode", "workers", 100)) for _ in range(2)])

    second = [unit for unit in account(run(program)) if unit.lane == "workers"][1]
    assert (second.open_ns, second.span_ns, second.busy_ns) == (101, 102, 100)


def test_a_unit_that_would_have_come_after_the_end_never_was() -> None:
    spans = (UnitSpan("workers", 0, 0, 100), UnitSpan("workers", 1, 140, 100))
    assert [unit.unit for unit in account(recorded(spans=spans)) if unit.lane == "workers"] == [0]


def test_slices_of_one_unit_that_overlap_are_refused_by_name() -> None:
    trace = recorded(row(0, "forward", "compute", 0, 100), row(1, "backward", "compute", 99, 200))
    message = r"'forward' \(op 0, 0 to 100 ns\) and 'backward' \(op 1, 99 to 200 ns\) overlap on compute 0"
    with pytest.raises(TraceError, match=message):
        account(trace)


def test_a_slice_outside_the_time_of_its_unit_is_refused_by_name() -> None:
    trace = recorded(row(0, "forward", "compute", 0, 100), spans=(UnitSpan("compute", 0, 50, 200),))
    with pytest.raises(
        TraceError, match=r"'forward' \(op 0, 0 to 100 ns\) lies outside the time of compute 0.*50 to 200 ns"
    ):
        account(trace)


def test_a_slice_on_a_unit_that_never_was_is_refused_by_name() -> None:
    trace = recorded(row(0, "forward", "compute", 0, 100, unit=3), spans=(UnitSpan("compute", 0, 0, 200),))
    with pytest.raises(TraceError, match=r"'forward' .* ran on compute 3, which the trace does not list"):
        account(trace)


def test_a_unit_that_went_and_came_back_has_two_accounts() -> None:
    spans = (UnitSpan("workers", 1, 0, 100), UnitSpan("workers", 1, 300, 500))
    trace = recorded(
        row(0, "decode", "workers", 10, 90, unit=1),
        row(1, "decode", "workers", 310, 400, unit=1),
        spans=spans,
    )
    assert [(unit.open_ns, unit.span_ns, unit.busy_ns) for unit in account(trace)] == [
        (0, 100, 80),
        (300, 200, 90),
    ]
