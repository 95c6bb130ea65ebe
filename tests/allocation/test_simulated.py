"""A policy on the simulated device, exactly, on the virtual clock."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.device.cost_model import CostModel, MeasuredCosts, MeasuredOp
from labkit.device.simulated import SimulatedDevice
from labkit.errors import DeviceError
from labkit.runner.execute import execute
from labkit.runner.job import Job, Outcome
from labkit.schedule import Cost, Lane, Op
from labkit.trace import KIND_OP
from tests.allocation.work import GFLOP, Work, job, machine, written

MS = 1_000_000


def ran(given: Job) -> Outcome:
    return execute(given, Work())


def durations(outcome: Outcome) -> list[int]:
    trace = outcome.trace
    assert trace is not None, outcome.failure
    ops = trace.columns["kind"] == KIND_OP
    return list(map(int, (trace.columns["end_ns"] - trace.columns["start_ns"])[ops]))


def line(outcome: Outcome, key: str) -> dict[str, Any]:
    return next(each for each in outcome.allocation["lines"] if each["key"] == key)


def test_half_of_the_compute_units_makes_a_compute_bound_op_take_exactly_twice_as_long(tmp_path: Path):
    whole, half = ran(job(None)), ran(job(written(tmp_path, reservation={"gpu_compute": 0.5})))
    assert durations(whole) == [MS] * 4 and durations(half) == [2 * MS] * 4
    assert whole.allocation == {} and whole.notes == ()
    assert line(half, "reservation.gpu_compute")["applied"] and line(half, "reservation.gpu_compute")["read_back"] == 0.5
    assert half.notes == ("allocation policy: applied: reservation.gpu_compute=0.5 (simulated: 0.5 of the FLOP rate; memory bandwidth is not divided, as under MPS)",)


def test_what_is_bound_by_memory_keeps_its_time_until_compute_is_slower_still(tmp_path: Path):
    """3 MB take 3 ms; a GFLOP takes 1 ms, 2 ms of half, 4 ms of a quarter."""
    for share, takes in ((0.5, 3), (0.25, 4)):
        assert durations(ran(job(written(tmp_path, reservation={"gpu_compute": share}), megabytes=3))) == [takes * MS] * 4


def test_a_measured_op_is_slowed_as_its_cost_would_be():
    measured = MeasuredCosts({"work": MeasuredOp(5 * MS, Cost(flop=GFLOP)), "move": MeasuredOp(5 * MS, Cost(bytes=9))})
    model = CostModel(machine(), measured)
    model.compute_share = 0.5
    assert model.duration_ns("work", "compute", Cost(flop=GFLOP)) == 10 * MS
    assert model.duration_ns("work", "compute", Cost(flop=GFLOP, bytes=1_500_000)) == round(5 * MS * 2 / 1.5)
    assert model.duration_ns("move", "compute", Cost(bytes=9)) == 5 * MS
    assert model.duration_ns("work", "workers", Cost(flop=GFLOP)) == 5 * MS


def test_an_op_that_needs_more_than_its_share_of_the_memory_fails_and_says_so(tmp_path: Path):
    half = written(tmp_path, reservation={"gpu_memory": 0.5})
    assert ran(job(half, resident=500)).status == "ok"
    assert ran(job(None, resident=501)).status == "ok"
    failed = ran(job(half, resident=501))
    assert failed.status == "failed" and "its share of test machine is 500 B" in failed.failure
    assert line(failed, "reservation.gpu_memory")["read_back"] == 500


def test_cores_bound_the_lanes_of_the_host(tmp_path: Path):
    """Four workers on four cores work at once, on two cores two by two."""
    ends = []
    for cores in (4, 2):
        device = SimulatedDevice(machine(), widths={"workers": 4})
        device.limit_cores(cores)
        ops = [device.submit(Op("work", Lane("workers"), lambda: None, Cost(fixed_ns=MS))) for _ in range(4)]
        ends.append([round(op.end_ns / MS) for op in ops])
    assert ends == [[1, 1, 1, 1], [1, 1, 2, 2]]
    assert line(ran(job(written(tmp_path, reservation={"cores": [0, 3]}))), "reservation.cores")["read_back"] == 2


def test_cores_that_go_while_the_run_goes_on_bound_what_comes_next():
    device = SimulatedDevice(machine(), widths={"workers": 4})

    def four_naps() -> list[int]:
        begun = device.now()
        ops = [device.submit(Op("work", Lane("workers"), lambda: None, Cost(fixed_ns=MS))) for _ in range(4)]
        device.wait([max(ops, key=lambda op: op.end_ns)])
        return [round((op.end_ns - begun) / MS) for op in ops]

    rounds = [four_naps()]
    for cores in (1, 2, 4):
        device.limit_cores(cores)
        rounds.append(four_naps())
    assert rounds == [[1, 1, 1, 1], [1, 2, 3, 4], [1, 1, 2, 2], [1, 1, 1, 1]]


@pytest.mark.parametrize("cores", [5, [4]])
def test_cores_that_the_machine_has_not_fail_the_run(cores: Any, tmp_path: Path):
    outcome = ran(job(written(tmp_path, reservation={"cores": cores})))
    assert outcome.status == "failed" and "reservation.cores" in outcome.failure and "0, 1, 2, 3" in outcome.failure


@pytest.mark.parametrize(
    ("of", "wanted", "reason"),
    [
        (machine(), {"cache_ways": 4}, "not modelled: no cost"),
        (machine("cpu"), {"gpu_compute": 0.5}, "has no GPU"),
        (machine("cpu"), {"gpu_memory": 0.5}, "has no GPU"),
        (machine(gpu_memory_bytes=None), {"gpu_memory": 0.5}, "does not give its gpu_memory_bytes"),
        (machine(cores=None), {"cores": 1}, "does not say how many cores"),
    ],
)
def test_what_the_model_does_not_know_is_not_applied_and_changes_nothing(of: Any, wanted: dict[str, Any], reason: str, tmp_path: Path):
    under, free = ran(job(written(tmp_path, reservation=wanted), of)), ran(job(None, of))
    (told,) = under.allocation["lines"]
    assert not told["applied"] and reason in told["words"] and told["read_back"] is None
    assert durations(under) == durations(free)


def test_a_share_of_compute_that_met_no_flop_is_not_reported_as_applied(tmp_path: Path):
    rule = {"resource": "gpu_compute", "high": 2, "low": 1}
    outcome = ran(job(written(tmp_path, reservation={"gpu_compute": 0.5}, scaling=[rule]), gflop=0, megabytes=1))
    assert [each["applied"] for each in outcome.allocation["lines"]] == [False, False]
    assert durations(outcome) == [MS] * 4


def test_a_share_grows_while_requests_wait_and_the_next_op_is_faster(tmp_path: Path):
    rule = {"resource": "gpu_compute", "high": 10, "low": 2, "step": 0.25, "minimum": 0.25, "period_ms": 4}
    outcome = ran(job(written(tmp_path, scaling=[rule]), steps=6, waiting=10))
    # a quarter takes 4 ms; half 2 ms, and 4 ms after the first look two of them have passed; three quarters 1.333333 ms
    assert durations(outcome) == [4 * MS, 2 * MS, 2 * MS, 1_333_333, 1_333_333, 1_333_333]
    told = line(outcome, "scaling.gpu_compute")
    assert told["applied"] and [share for _, share in told["read_back"]["moves"]] == [0.5, 0.75]
    assert told["read_back"]["in_force"] == 0.75 and "moved 2 times, between 0.25 and 0.75" in told["words"]


def test_a_share_moves_within_what_is_reserved(tmp_path: Path):
    rule = {"resource": "gpu_compute", "high": 10, "low": 2, "minimum": 0.5}
    outcome = ran(job(written(tmp_path, reservation={"gpu_compute": 0.5}, scaling=[rule])))
    assert durations(outcome) == [4 * MS] * 4
    assert line(outcome, "scaling.gpu_compute")["read_back"]["in_force"] == 0.25


def test_a_share_shrinks_by_utilization_and_never_below_its_minimum(tmp_path: Path):
    rule = {"resource": "gpu_compute", "by": "utilization", "high": 0.9, "low": 0.1, "step": 0.5, "minimum": 0.5, "period_ms": 2}
    outcome = ran(job(written(tmp_path, scaling=[rule])))
    assert durations(outcome) == [2 * MS, MS, MS, MS]  # always busy: it grows at the first look and stays


def test_cores_of_a_simulated_host_move_too(tmp_path: Path):
    rule = {"resource": "cores", "high": 10, "low": 2, "step": 0.25, "minimum": 0.25, "period_ms": 1}
    told = line(ran(job(written(tmp_path, scaling=[rule]), waiting=50)), "scaling.cores")
    assert told["applied"] and told["read_back"]["in_force"] == 4
    assert [share for _, share in told["read_back"]["moves"]] == [0.5, 0.75, 1.0]


def test_the_same_run_under_the_same_policy_is_the_same_bit_for_bit(tmp_path: Path):
    rule = {"resource": "gpu_compute", "high": 10, "low": 2, "period_ms": 1}
    one, other = (ran(job(written(tmp_path, scaling=[rule]), steps=30, waiting=20)) for _ in range(2))
    assert durations(one) == durations(other) and one.allocation == other.allocation


def test_a_policy_that_cannot_be_read_is_the_runs_failure():
    outcome = ran(job("nowhere.yaml"))
    assert outcome.status == "failed" and outcome.trace is None and "there is no such file" in outcome.failure


def test_runs_under_a_file_that_has_changed_measure_something_else(tmp_path: Path):
    half = job(written(tmp_path, reservation={"gpu_compute": 0.5})).key
    assert job(written(tmp_path, reservation={"gpu_compute": 0.5})).key == half
    assert job(written(tmp_path, reservation={"gpu_compute": 0.4})).key != half
    assert job("nowhere.yaml").key != half


def test_a_device_refuses_shares_that_there_are_not():
    device = SimulatedDevice(machine())
    for share in (0, 1.1, float("nan")):
        with pytest.raises(DeviceError, match="compute units"):
            device.share_compute(share)
    with pytest.raises(DeviceError, match="cores"):
        device.limit_cores(0)


def test_a_stopped_run_keeps_what_it_says_of_its_allocation(tmp_path: Path):
    given = job(written(tmp_path, reservation={"gpu_compute": 0.5}), gflop=1, resident=2000)
    outcome = ran(replace(given, machine=machine()))
    assert outcome.status == "failed" and line(outcome, "reservation.gpu_compute")["applied"]
