"""From the ideal to the measured time: the parts add up, exactly."""

from hypothesis import given, settings

from labkit.metrics.waterfall import FEW, Waterfall, waterfall
from labkit.trace import Trace
from tests.metrics.virtual_runs import Schedule, op, pipeline, run, schedules


def assert_adds_up(fall: Waterfall) -> None:
    assert fall.ideal_ns + sum(loss.ns for loss in fall.losses) == fall.total_ns
    assert fall.ideal_ns > 0
    assert all(loss.ns > 0 for loss in fall.losses)


def of_pipeline(prefetch: int, workers: int = 1, **times: int) -> Trace:
    return run(lambda device: pipeline(device, 60, prefetch, **times), {"workers": workers})


@settings(max_examples=200, deadline=None)
@given(schedules())
def test_it_adds_up_in_whole_nanoseconds_for_any_simulated_run(schedule: Schedule):
    trace = schedule.trace()
    fall = waterfall(trace)
    if fall is not None:
        assert_adds_up(fall)
        assert fall.total_ns <= fall.wall_ns * fall.units


def test_a_saturated_lane_has_nothing_to_lose():
    fall = waterfall(of_pipeline(prefetch=2, decode=400), 10)
    assert (fall.lane, fall.losses) == ("compute", ())
    assert fall.total_ns == fall.wall_ns == fall.ideal_ns


def test_what_a_slow_stage_costs_the_busiest_lane_is_nothing_where_it_is_the_busiest_itself():
    fall = waterfall(of_pipeline(prefetch=2, decode=1500), 10)
    assert fall.lane == "workers"
    assert [(loss.words, loss.ns) for loss in fall.losses] == [("after the last op", 1000)], "the last step, which nothing is loaded beside"


def test_the_synchronous_program_loses_what_the_other_stages_take():
    fall = waterfall(of_pipeline(prefetch=0, decode=1000, copy=100, forward=300, update=600), 10)
    assert fall.lane == "workers"
    assert_adds_up(fall)
    assert abs(fall.relative(fall.total_ns) - 2.0) < 0.01, "decode takes 1000 of 2000 ns"
    assert fall.steps == 50
    assert abs(fall.per_step_ms(fall.ideal_ns) - 0.001) < 1e-5
    assert fall.words.startswith("1.00 ideal (workers busy) + ") and fall.words.endswith("= 2.00 measured")


def test_causes_of_less_than_one_per_cent_are_one():
    def program(device) -> None:
        for step in range(40):
            small = [device.submit(op(f"small {k}", "workers", 3, step)) for k in range(4)]
            for handle in small:
                device.wait([handle])
                device.wait([device.submit(op("train", "compute", 1000, step))])
            device.wait([device.submit(op("update", "compute", 1000, step, items=1))])

    fall = waterfall(run(program), 4)
    assert_adds_up(fall)
    assert fall.losses[-1].words == FEW
    assert all(loss.ns >= 0.01 * fall.total_ns for loss in fall.losses[:-1])


def test_nothing_but_the_host_has_no_waterfall():
    assert waterfall(run(lambda device: device.submit(op("alone", "host", 100, 0, items=1)))) is None


def test_two_units_make_twice_the_wall_time():
    fall = waterfall(of_pipeline(prefetch=4, workers=2, decode=4000), 10)
    assert (fall.lane, fall.units, fall.total_ns) == ("workers", 2, 2 * fall.wall_ns)
