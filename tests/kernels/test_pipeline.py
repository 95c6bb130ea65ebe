"""The pipeline in exact numbers on the virtual clock: what each knob does to the time between two steps."""

from itertools import pairwise

import numpy as np
import pytest

from labkit.schedule import Status
from labkit.trace import KIND_WAIT, Trace

US = 1000
STAGES = {"load": 200 * US, "copy": 50 * US, "forward": 100 * US, "backward": 150 * US, "update": 50 * US}
TRAIN = 300 * US  # what the compute lane does in a step
STEPS = 40
SUBMIT = 1  # every verb costs at least 1 ns
VERBS = 25  # more than all the verbs of a step cost


def rows_named(trace: Trace, name: str) -> np.ndarray:
    return np.flatnonzero(trace["name"] == trace.names.index(name)) if name in trace.names else np.empty(0, np.int64)


def step_ends(trace: Trace) -> np.ndarray:
    return trace["end_ns"][rows_named(trace, "update")]


def steady_intervals(trace: Trace) -> list[int]:
    """Times between the ends of steps, the first and the last ten left out."""
    return np.diff(step_ends(trace))[10:-10].tolist()


def steady(lab, *, prefetch: int, widths: dict[str, int] | None = None, stages: dict[str, int] | None = None, **knobs) -> list[int]:
    settings = {"log_every": 0, **knobs}
    return steady_intervals(lab.run(lab.Training(**(STAGES | (stages or {}))), lab.steps_of([prefetch] * STEPS, **settings), widths))


def only(values: list[int]) -> int:
    """The value that all of them are."""
    assert len(set(values)) == 1, set(values)
    return values[0]


# ---- prefetch ------------------------------------------------------------------------------------------------


def test_synchronous_step_takes_the_sum_of_its_stages(lab):
    assert set(steady(lab, prefetch=0)) == {200 * US + SUBMIT + 50 * US + 100 * US + 150 * US + 50 * US + SUBMIT}


def test_synchronous_stages_follow_each_other_without_a_gap_and_never_overlap(lab):
    trace = lab.run(lab.Training(**STAGES), lab.steps_of([0] * 5, log_every=0))
    ran = np.flatnonzero(trace["kind"] != KIND_WAIT)
    assert [trace.name_of(row) for row in ran[:5]] == ["load", "copy", "forward", "backward", "update"]
    gaps = trace["start_ns"][ran[1:]] - trace["end_ns"][ran[:-1]]
    assert gaps.tolist() == ([SUBMIT, 0, 0, 0, SUBMIT] * 5)[:-1], "the host submits a load, and the rest once it is loaded"


@pytest.mark.parametrize("prefetch", [1, 2, 8])
def test_prefetch_two_hides_the_load_behind_the_step(lab, prefetch: int):
    assert set(steady(lab, prefetch=prefetch)) == {TRAIN}


@pytest.mark.parametrize("prefetch", [1, 2, 8])
def test_a_load_longer_than_the_step_sets_the_pace(lab, prefetch: int):
    assert set(steady(lab, prefetch=prefetch, stages={"load": 500 * US})) == {500 * US}


@pytest.mark.parametrize(("load", "interval"), [(100, 300), (299, 300), (300, 300), (301, 301), (600, 600)])
def test_the_steady_interval_is_the_longer_of_load_and_train(lab, load: int, interval: int):
    assert set(steady(lab, prefetch=2, stages={"load": load * US})) == {interval * US}


def test_prefetching_makes_a_batch_older_not_only_the_steps_faster(lab):
    def age(prefetch: int) -> int:
        trace = lab.run(lab.Training(**STAGES), lab.steps_of([prefetch] * STEPS, log_every=0))
        return int((step_ends(trace) - trace["start_ns"][rows_named(trace, "load")])[20])

    assert age(0) == 550 * US + SUBMIT
    assert age(4) > 4 * TRAIN


# ---- workers and lanes -----------------------------------------------------------------------------------------


def test_two_workers_halve_a_load_bound_interval(lab):
    slow = {"load": 800 * US}
    assert set(steady(lab, prefetch=4, stages=slow)) == {800 * US}
    intervals = steady(lab, prefetch=4, stages=slow, widths={"workers": 2})
    assert {first + second for first, second in pairwise(intervals)} == {800 * US}, "two steps in the time of one load"


def test_four_workers_bring_a_load_bound_run_to_the_pace_of_training(lab):
    assert set(steady(lab, prefetch=8, stages={"load": 800 * US}, widths={"workers": 4})) == {TRAIN}


def test_workers_beyond_the_batches_in_flight_gain_nothing(lab):
    slow = {"load": 1200 * US}
    two, eight = (steady(lab, prefetch=1, stages=slow, widths={"workers": width}) for width in (2, 8))
    assert two == eight


def test_a_copy_on_the_compute_lane_takes_its_time_from_training(lab):
    assert set(steady(lab, prefetch=2, copy_stream="own")) == {TRAIN}
    assert set(steady(lab, prefetch=2, copy_stream="compute")) == {TRAIN + 50 * US}


def test_a_copy_on_its_own_lane_runs_while_the_step_before_it_is_computed(lab):
    trace = lab.run(lab.Training(**STAGES), lab.steps_of([2] * STEPS, log_every=0))
    copies, updates = rows_named(trace, "copy"), rows_named(trace, "update")
    assert (trace["end_ns"][copies[10:]] <= trace["end_ns"][updates[9:-1]]).all()
    assert {trace.lane_of(row) for row in copies} == {"h2d"}


def test_a_copy_that_blocks_holds_the_host_until_it_has_ended(lab):
    trace = lab.run(lab.Training(**STAGES), lab.steps_of([2] * STEPS, log_every=0, non_blocking=False))
    copies, forwards = rows_named(trace, "copy"), rows_named(trace, "forward")
    assert (trace["submit_ns"][forwards] >= trace["end_ns"][copies]).all()
    assert [trace["kind"][row + 1] for row in copies] == [KIND_WAIT] * STEPS


def test_a_host_that_loads_itself_cannot_load_while_it_waits_for_a_blocking_copy(lab):
    host = {"prefetch": 2, "loader": "inline", "stages": {"load": 400 * US}}
    assert only(steady(lab, **host)) // VERBS == 400 * US // VERBS
    assert only(steady(lab, **host, non_blocking=False)) // VERBS == (400 + 50) * US // VERBS


def test_the_preparations_run_one_after_another_between_copy_and_forward(lab):
    workload = lab.Training(**STAGES, augment=20 * US, normalise=30 * US)
    workload.preparations = ("augment", "normalise")
    trace = lab.run(workload, lab.steps_of([2] * STEPS, log_every=0))
    assert set(steady_intervals(trace)) == {TRAIN + 50 * US}
    copy, augment, normalise, forward = (rows_named(trace, name)[5] for name in ("copy", "augment", "normalise", "forward"))
    assert [trace.deps(row)[0] for row in (augment, normalise, forward)] == trace["op"][[copy, augment, normalise]].tolist()


# ---- logging ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "logged"), [(0, []), (1, list(range(12))), (5, [0, 5, 10]), (100, [0])])
@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("sync", [False, True])
def test_the_loss_is_read_at_every_so_many_steps_once_each_and_in_order(lab, every, logged, prefetch, sync):
    workload = lab.Training(**STAGES)
    trace = lab.run(workload, lab.steps_of([prefetch] * 12, log_every=every, log_sync=sync))
    assert workload.logged_steps == logged
    assert trace["step"][rows_named(trace, "log")].tolist() == logged


def test_a_log_that_is_not_synchronous_costs_a_step_nothing(lab):
    assert set(steady(lab, prefetch=2, log_every=1, stages={"log": 20 * US})) == {TRAIN}


def test_a_synchronous_log_holds_the_host_until_the_loss_is_there(lab):
    host = {"prefetch": 2, "loader": "inline", "stages": {"load": 400 * US, "log": 10 * US}, "log_every": 1}
    assert only(steady(lab, **host, log_sync=False)) // VERBS == 400 * US // VERBS
    held = only(steady(lab, **host, log_sync=True))
    assert held // VERBS == (400 + 50 + 100 + 10) * US // VERBS, "load, copy, forward and log one after another"


def test_a_synchronous_log_is_read_before_the_next_load_is_submitted(lab):
    for sync in (True, False):
        trace = lab.run(lab.Training(**STAGES), lab.steps_of([2] * 12, log_sync=sync))
        logs, loads = rows_named(trace, "log"), rows_named(trace, "load")
        before = trace["end_ns"][logs[:-3]] <= trace["submit_ns"][loads[3:]]
        assert before.all() if sync else not before.any()


# ---- every step ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [0, 1, 2, 8, 64])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 30])
def test_every_step_is_trained_once_and_in_order_however_short_the_run(lab, prefetch: int, steps: int):
    trace = lab.run(lab.Training(**STAGES), lab.steps_of([prefetch] * steps, batch_size=7))
    for name in ("load", "copy", "forward", "backward", "update", "log"):
        assert trace["step"][rows_named(trace, name)].tolist() == list(range(steps))
    assert trace["items"].sum() == 7 * steps
    assert set(trace["status"].tolist()) <= {Status.OK}


def test_knobs_belong_to_the_step_that_carries_them_from_its_load_to_its_log(lab):
    steps = lab.steps_of([3] * 6, copy_stream="own") + lab.steps_of([3] * 12, copy_stream="compute", log_every=0)[6:]
    trace = lab.run(lab.Training(**STAGES), steps)
    assert [trace.lane_of(row) for row in rows_named(trace, "copy")] == ["h2d"] * 6 + ["compute"] * 6
    assert trace["step"][rows_named(trace, "log")].tolist() == list(range(6))


def test_the_same_run_gives_the_same_trace(lab):
    first, second = (lab.run(lab.Training(**STAGES), lab.steps_of([3, 3, 0, 5, 5, 5, 1] * 3)) for _ in range(2))
    assert all(np.array_equal(first[column], second[column]) for column in first.columns)
