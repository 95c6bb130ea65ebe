"""Replay runs a recorded host program again: exactly as it was, or with other durations and widths."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labkit.device.cpu import CpuDevice
from labkit.device.simulated import SimulatedDevice
from labkit.errors import TraceError
from labkit.metrics import Replayed, compile_replay, replay
from labkit.schedule import Lane, Op
from labkit.trace import KIND_LAUNCH, KIND_WAIT, Trace
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import Schedule, machine, op, pipeline, run, schedules


def assert_repeats(replayed: Replayed, trace: Trace) -> None:
    assert replayed.start_ns.tolist() == trace["start_ns"].tolist()
    assert replayed.end_ns.tolist() == trace["end_ns"].tolist()
    assert replayed.makespan_ns == trace.makespan_ns


@settings(max_examples=300, deadline=None)
@given(schedules())
def test_with_lags_a_replay_repeats_every_instant_of_any_simulated_run(schedule: Schedule) -> None:
    trace = schedule.trace()
    assert_repeats(replay(compile_replay(trace), lags=True), trace)


@settings(max_examples=300, deadline=None)
@given(schedules(lags=False))
def test_without_lags_it_repeats_every_instant_where_the_machine_has_none(schedule: Schedule) -> None:
    trace = schedule.trace()
    assert_repeats(replay(compile_replay(trace)), trace)


@settings(max_examples=300, deadline=None)
@given(
    schedules(lags=False, plain=True),
    st.sampled_from(("workers", "h2d", "compute", "host")),
    st.sampled_from((0.5, 3)),
)
def test_a_scaled_replay_is_the_simulation_of_the_scaled_program(
    schedule: Schedule, lane: str, factor: float
) -> None:
    def times(whole: int) -> dict[str, int]:
        return {lane: whole, "compute1": whole if lane == "compute" else 1}

    assume(any(act.kind == "submit" and act.lane == lane for act in schedule.acts))
    replayed = replay(compile_replay(schedule.trace(times(6))), scale={lane: factor})
    assert_repeats(replayed, schedule.trace(times(int(6 * factor))))


@settings(max_examples=300, deadline=None)
@given(schedules(lags=False, plain=True), st.sampled_from(("workers", "h2d", "compute")), st.integers(1, 4))
def test_a_replay_with_other_widths_is_the_simulation_with_those_widths(
    schedule: Schedule, role: str, width: int
) -> None:
    assume(any(act.kind == "submit" and act.lane == role for act in schedule.acts))
    replayed = replay(compile_replay(schedule.trace()), widths={role: width})
    assert_repeats(replayed, schedule.trace(widths={role: width}))


def prefetching(device: SimulatedDevice) -> None:
    pipeline(device, 20, prefetch=2)


def test_a_decode_twice_as_fast_turns_a_loader_bound_pipeline_into_a_compute_bound_one() -> None:
    program = compile_replay(run(prefetching))
    assert replay(program).makespan_ns == 1 + 20 * 1000 + 100 + 300 + 600, (
        "a submit, 20 decodes, what follows the last"
    )
    assert replay(program, scale={"decode": 0.5}).makespan_ns == 1 + 500 + 100 + 20 * 900, (
        "20 steps after the first decode"
    )
    assert replay(program, scale={"workers": 0.5}).makespan_ns == 1 + 500 + 100 + 20 * 900


def test_the_factor_of_an_op_goes_before_that_of_its_lane() -> None:
    program = compile_replay(run(lambda device: pipeline(device, 1, prefetch=0)))
    before = replay(program).makespan_ns
    assert replay(program, scale={"compute": 2}).makespan_ns == before + 900
    assert replay(program, scale={"compute": 2, "forward": 1}).makespan_ns == before + 600


def test_two_workers_hide_what_one_could_not() -> None:
    program = compile_replay(run(prefetching))
    assert replay(program, widths={"workers": 2}).makespan_ns == run(prefetching, {"workers": 2}).makespan_ns


def test_a_synchronous_run_replays_synchronously() -> None:
    trace = run(lambda device: pipeline(device, 10, prefetch=0))
    assert replay(compile_replay(trace)).makespan_ns == trace.makespan_ns == 10 * (1000 + 100 + 300 + 600 + 1)


def test_lags_are_what_the_machine_adds() -> None:
    lazy = machine(wake_ns=50, dispatch_ns=20)
    trace = run(lambda device: pipeline(device, 10, prefetch=0), on=lazy)
    program = compile_replay(trace)
    assert replay(program, lags=True).makespan_ns == trace.makespan_ns
    assert trace.makespan_ns - replay(program).makespan_ns == 10 * (4 * 20 + 50)


def host_pauses(device: SimulatedDevice) -> None:
    device.wait([], until=1000)
    device.wait([device.submit(op("work", "compute", 100))])


def test_a_deadline_keeps_its_instant() -> None:
    program = compile_replay(run(host_pauses))
    assert replay(program, scale={"work": 3}).end_ns.tolist() == [1000, 1301, 1301]


def first_of_two(device: SimulatedDevice) -> None:
    device.wait([device.submit(op("a", "compute", 100)), device.submit(op("b", "d2h", 500))])


def test_a_wait_for_several_ends_with_the_one_that_is_first_now() -> None:
    program = compile_replay(run(first_of_two))
    assert replay(program).end_ns.tolist() == [101, 502, 101]
    assert replay(program, scale={"a": 9}).end_ns.tolist() == [901, 502, 502]


def test_a_run_of_threads_replays_as_recorded_and_faster_without_its_lags() -> None:
    device = CpuDevice(widths={"workers": 2})
    for step in range(30):
        loaded = device.submit(Op("decode", Lane("workers"), spin, step=step))
        crop = device.submit(Op("crop", Lane("host"), spin, step=step), loaded)
        device.wait([device.submit(Op("update", Lane("compute"), spin, step=step, items=1), crop)])
    device.close()
    trace = device.recorder.finish(device.now())
    program = compile_replay(trace)
    assert_repeats(replay(program, lags=True), trace)
    assert replay(program).makespan_ns < trace.makespan_ns


def spin(*_: object) -> int:
    return sum(range(2000))


LATE = (
    row(0, "decode", "workers", 10, 500, submit_ns=0, queued_ns=10),
    row(1, "copy", "h2d", 570, 600, submit_ns=20, queued_ns=30, deps=(0,)),
    row(2, "wait", "host", 40, 510, kind=KIND_WAIT, deps=(1, 0), woke_by=0),
    row(3, "launch", "host", 550, 580, kind=KIND_LAUNCH, deps=(1,)),
    row(4, "wait", "host", 590, 605, kind=KIND_WAIT, deps=(1,), woke_by=1),
)


def test_an_op_that_the_host_launched_late_starts_where_it_was_launched() -> None:
    program = compile_replay(recorded(*LATE))
    assert replay(program, lags=True).end_ns.tolist() == [500, 600, 510, -1, 605]
    assert replay(program).end_ns.tolist() == [500, 590, 500, -1, 590], (
        "without the lags of 10 and 5 ns of the two waits"
    )
    assert replay(program, scale={"decode": 2}).end_ns.tolist() == [990, 1080, 990, -1, 1080]


def test_an_op_that_started_within_its_own_launch_is_not_held_until_the_launch_ended() -> None:
    eager = recorded(
        row(0, "step", "compute", 10, 450, submit_ns=0, queued_ns=400),
        row(1, "wait", "host", 400, 460, kind=KIND_WAIT, deps=(0,), woke_by=0),
    )
    assert replay(compile_replay(eager)).end_ns.tolist() == [450, 450]


def test_a_dependency_that_was_dropped_counts_as_done() -> None:
    trace = recorded(row(7, "step", "compute", 101, 200, submit_ns=100, queued_ns=101, deps=(3,)))
    assert replay(compile_replay(trace)).makespan_ns == 100


def test_an_empty_trace_replays_to_nothing() -> None:
    assert replay(compile_replay(recorded())).makespan_ns == 0


def test_a_dependency_on_a_later_op_is_refused() -> None:
    trace = recorded(row(0, "step", "compute", 1, 9, deps=(4,)))
    with pytest.raises(TraceError, match=r"'step' \(op 0\) depends on op 4, which comes later"):
        compile_replay(trace)


def test_verbs_that_overlap_are_refused() -> None:
    trace = recorded(
        row(0, "wait", "host", 0, 100, kind=KIND_WAIT),
        row(1, "step", "compute", 60, 70, submit_ns=50, queued_ns=60),
    )
    with pytest.raises(TraceError, match=r"'step' \(op 1\) was submitted before the host had left"):
        compile_replay(trace)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"scale": {"decod": 2}},
            "scale names 'decod', which is no op or lane of this trace; there are: decode, copy",
        ),
        ({"scale": {"decode": -1}}, "scale -1 of 'decode' is not allowed"),
        ({"scale": {"decode": float("nan")}}, "scale nan of 'decode' is not allowed"),
        (
            {"widths": {"disk": 2}},
            "no lane 'disk' whose width could change; there are: workers, h2d, compute",
        ),
        ({"widths": {"host": 2}}, "no lane 'host'"),
        ({"widths": {"workers": 0}}, "width 0 of lane 'workers' is not allowed: 1 to 4096"),
    ],
)
def test_what_cannot_be_changed_is_refused(change: dict, message: str) -> None:
    with pytest.raises(TraceError, match=message.replace("(", r"\(")):
        replay(compile_replay(run(prefetching)), **change)
