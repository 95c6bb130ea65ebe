"""The scaler, look by look, and the load that it looks at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.allocation.load import Load
from labkit.allocation.policy import Scaling
from labkit.allocation.scaler import Scaler
from labkit.trace import KIND_OP, KIND_WAIT, Recorder

MS = 1_000_000


def scaler(**changed: float) -> Scaler:
    return Scaler(Scaling.model_validate({"resource": "cores", "high": 10, "low": 2, "step": 0.2, "minimum": 0.2, "period_ms": 100.0} | changed))


def looks(under: Scaler, loads: list[float], every_ms: int = 100) -> list[float]:
    return [under.step((place + 1) * every_ms * MS, load) for place, load in enumerate(loads)]


def test_it_begins_at_the_minimum_grows_by_steps_to_the_maximum_and_shrinks_back():
    assert scaler().share == 0.2
    assert looks(scaler(), [10, 99, 10, 10, 10, 3, 2, 0, 9.9]) == [0.4, 0.6, 0.8, 1.0, 1.0, 1.0, 0.8, 0.6, 0.6]


def test_the_thresholds_themselves_count_and_what_lies_between_moves_nothing():
    assert looks(scaler(), [9.999, 10, 2.001, 2]) == [0.2, 0.4, 0.4, 0.2]


def test_it_looks_once_a_period_however_often_it_is_asked():
    assert looks(scaler(), [50] * 8, every_ms=25) == [0.2, 0.2, 0.2, 0.4, 0.4, 0.4, 0.4, 0.6]


def test_after_a_move_it_rests_for_its_cooldown():
    assert looks(scaler(cooldown_ms=250.0), [50] * 7) == [0.4, 0.4, 0.4, 0.6, 0.6, 0.6, 0.8]


def test_a_last_step_that_is_shorter_ends_at_the_maximum_and_the_way_back_is_the_way_there():
    assert looks(scaler(minimum=0.3, step=0.3, maximum=0.8), [50, 50, 50, 0, 0, 0]) == [0.6, 0.8, 0.8, 0.6, 0.3, 0.3]


@given(st.lists(st.floats(0, 100), max_size=60), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.01, 1))
def test_whatever_comes_the_share_stays_within_its_bounds_and_returns_to_the_very_minimum(loads: list[float], step: float, one: float, other: float):
    minimum, maximum = sorted((one, other))
    under = scaler(step=step, minimum=minimum, maximum=maximum)
    assert all(round(minimum, 9) <= share <= maximum or share == maximum for share in looks(under, loads))
    for place in range(110):
        under.step((len(loads) + place + 1) * 100 * MS, 0.0)
    assert under.share == pytest.approx(minimum, abs=1e-9)


def row(lane: str, start_ns: int, end_ns: int, kind: int = KIND_OP) -> tuple:
    return (0, kind, "op", lane, 0, 0, 0, start_ns, start_ns, start_ns, end_ns, 0, 0, -1, 1, ())


def test_utilization_is_the_busy_share_of_compute_between_two_looks():
    recorder = Recorder()
    load = Load(recorder)
    recorder.append(row("compute", 10, 40))
    recorder.append(row("workers", 0, 100))
    recorder.append(row("compute", 0, 100, KIND_WAIT))
    recorder.append(row("compute", -1, -1))
    assert load.utilization(100) == 0.3
    assert load.utilization(200) == 0.0


def test_what_a_simulated_device_records_ahead_counts_when_its_time_comes():
    recorder = Recorder()
    load = Load(recorder)
    recorder.append(row("compute", 50, 350))
    assert [load.utilization(now_ns) for now_ns in (100, 200, 300, 400, 500)] == [0.5, 1.0, 1.0, 0.5, 0.0]


def test_what_began_before_the_look_and_was_recorded_after_it_counts_as_all_at_most():
    recorder = Recorder()
    load = Load(recorder)
    assert load.utilization(100) == 0.0
    recorder.append(row("compute", 10, 190))
    assert load.utilization(200) == 1.0


def test_the_queue_is_what_the_kernel_says_and_none_where_it_says_nothing():
    recorder = Recorder()
    assert Load(recorder).waiting() == 0.0
    recorder.gauges["waiting"] = 7
    assert Load(recorder).waiting() == 7.0
