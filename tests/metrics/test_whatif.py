"""What a change would do, from a replay: against what is known of a small pipeline, and against the simulation of the changed program."""

import pytest
from hypothesis import given, settings

from labkit.errors import TraceError
from labkit.metrics.throughput import throughput
from labkit.metrics.whatif import SPEEDUPS, Change, Replays
from labkit.metrics.window import steady_window
from labkit.trace import Trace
from tests.metrics.virtual_runs import Schedule, op, pipeline, run, schedules


def of_pipeline(prefetch: int, workers: int = 1, **times: int) -> Trace:
    return run(lambda device: pipeline(device, 80, prefetch, **times), {"workers": workers})


def test_of_the_run_as_it_was_it_is_wrong_by_nothing_on_the_virtual_clock():
    replays = Replays(of_pipeline(2), 10)
    assert replays.error == 0
    assert replays.ask(Change()).ratio == 1


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_a_change_of_nothing_changes_nothing(schedule: Schedule):
    trace = schedule.trace()
    if not (trace["end_ns"] >= 0).any():
        with pytest.raises(TraceError, match="nothing ran in this trace"):
            Replays(trace)
        return
    replays = Replays(trace)
    assert replays.unit == ("items/s" if len(steady_window(trace).rows) > 1 else "runs/s")
    assert replays.error == 0
    assert all(replays.ask(Change({name: 1.0})).ratio == 1 for name, _ in replays.stages())


def test_a_stage_that_the_others_wait_for_gains_until_the_next_one_is_slower():
    replays = Replays(of_pipeline(2, decode=1800), 10)  # compute: 900 a step
    assert replays.ask(Change({"decode": 0.9})).ratio == pytest.approx(1 / 0.9, rel=0.01)
    assert replays.ask(Change({"decode": 0.5})).ratio == pytest.approx(2, rel=0.02)
    assert replays.ask(Change({"decode": 0.0})).ratio == pytest.approx(2, rel=0.02), "compute takes 900 still"
    assert replays.ask(Change({"compute": 0.5})).ratio == pytest.approx(1, rel=0.02)


def test_a_second_worker_is_what_the_simulation_with_two_says():
    replays = Replays(of_pipeline(3, decode=1800), 10)
    told = replays.ask(Change(widths={"workers": 2}))
    truth = of_pipeline(3, workers=2, decode=1800)
    assert told.items_per_s == pytest.approx(throughput(truth, steady_window(truth, 10)).value, rel=0.01)
    assert told.change.words == "workers 2 wide"


def test_the_virtual_speed_ups_put_the_slowest_stage_first_and_never_fall():
    found = Replays(of_pipeline(2, decode=1800), 10).virtual_speedups()
    assert found[0].name == "decode"
    assert found[0].gains == pytest.approx((1 / 0.9, 1 / 0.75, 2, 2), rel=0.02)
    assert {each.name for each in found} == {"decode", "copy", "forward", "update", "compute", "host program"}
    assert all(len(each.gains) == len(SPEEDUPS) and min(each.gains) > 0.99 for each in found)


def test_a_host_that_is_slow_between_its_ops_gains_by_less_of_its_own_time():
    def program(device) -> None:
        for step in range(40):
            device.submit(op("prepare", "host", 700, step))
            device.wait([device.submit(op("update", "compute", 300, step, items=1))])

    replays = Replays(run(program), 4)
    assert replays.ask(Change({"prepare": 0.5})).ratio == pytest.approx(1000 / 650, rel=0.01)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change({"decoding": 0.5}), "'decoding', which is no op or lane of this trace; there are: decode, copy"),
        (Change({"decode": -1}), "scale -1 of 'decode' is not allowed"),
        (Change(widths={"workers": 0}), "width 0 of lane 'workers' is not allowed"),
        (Change(host=-0.5), "host=-0.5 is not allowed: 0 to 1000"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: Change, says: str):
    with pytest.raises(TraceError) as refusal:
        Replays(of_pipeline(2), 10).ask(change)
    assert says in str(refusal.value)


def test_a_change_is_told_in_words():
    change = Change({"decode": 0.5, "copy": 0}, {"workers": 4}, host=0)
    assert change.words == "decode in 0.5 of its time, copy gone, workers 4 wide, no host time between ops"


@pytest.mark.parametrize("change", [Change({"compute": 1e12}), Change({"compute": 1e300}), Change(host=1e12), Change(widths={"workers": 10**11})])
def test_what_would_overflow_is_refused(change: Change):
    with pytest.raises(TraceError, match=r"is not allowed: (0 to 1000|1 to 4096)"):
        Replays(of_pipeline(2), 10).ask(change)
