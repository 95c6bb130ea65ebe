"""One job in this process, on the virtual clock: budgets, toggles, stops and failures, with exact numbers."""

from typing import Any

from labkit.runner.execute import Controls, execute
from labkit.runner.job import Job, Outcome
from labkit.trace import KIND_OP, Trace
from tests.runner.naps import NapKnobs, Naps, nap_job


def run(job: Job, controls: Controls | None = None) -> Outcome:
    return execute(job, Naps(), controls)


def naps_of(trace: Trace | None) -> int:
    assert trace is not None
    return int(((trace["kind"] == KIND_OP) & (trace["status"] == 1)).sum())


def test_steps_are_counted_after_the_warm_up() -> None:
    outcome = run(nap_job(steps=10, warmup=3))
    assert outcome.status == "ok"
    assert naps_of(outcome.trace) == 13


def test_seconds_are_device_time_so_a_simulated_minute_takes_no_minute() -> None:
    outcome = run(nap_job(steps=None, seconds=60, warmup=0, nap_ms=100))
    assert outcome.trace is not None
    assert naps_of(outcome.trace) == 600
    assert outcome.wall_s < 30


def test_whichever_budget_ends_first_ends_the_run() -> None:
    assert naps_of(run(nap_job(steps=5, seconds=60, warmup=0, nap_ms=100)).trace) == 5
    assert naps_of(run(nap_job(steps=5000, seconds=1, warmup=0, nap_ms=100)).trace) == 10


def test_a_failing_op_ends_the_run_at_once_with_its_name() -> None:
    outcome = run(nap_job(steps=1000, fails_at=4))
    assert (outcome.status, outcome.failure) == ("failed", "op 'nap': ValueError: no nap at step 4")
    assert naps_of(outcome.trace) == 4


def test_a_kernel_that_raises_keeps_what_happened_until_then() -> None:
    def stumbles(device: Any, workload: Naps, steps: Any) -> None:
        for step in steps:
            if step.index == 3:
                raise KeyError("stumbled")
            device.wait([device.submit(workload.nap(step))])

    outcome = run(nap_job(kernel=stumbles))
    assert (outcome.status, outcome.failure) == ("failed", "KeyError: 'stumbled'")
    assert "stumbles" in outcome.detail, "the detail says where"
    assert naps_of(outcome.trace) == 3


def test_a_kernel_that_releases_no_step_is_no_failure_but_leaves_nothing() -> None:
    outcome = run(nap_job(kernel=lambda device, workload, steps: None))
    assert outcome.status == "ok"
    assert naps_of(outcome.trace) == 0


def test_a_toggle_acts_on_the_next_step_and_leaves_a_mark() -> None:
    controls = Controls()

    def turns_at_five(device: Any, workload: Naps, steps: Any) -> None:
        for step in steps:
            if step.index == 5:
                controls.turn(NapKnobs(nap_ms=50))
            device.wait([device.submit(workload.nap(step))])

    outcome = run(nap_job(steps=10, warmup=0, kernel=turns_at_five), controls)
    assert outcome.trace is not None
    [mark] = outcome.trace.marks
    assert (mark.step, mark.knob, mark.old, mark.new) == (6, "nap_ms", 5, 50)
    lengths = (outcome.trace["end_ns"] - outcome.trace["start_ns"])[outcome.trace["kind"] == KIND_OP]
    assert lengths.tolist() == [5_000_000] * 6 + [50_000_000] * 4


def test_stop_before_the_start_releases_no_step() -> None:
    controls = Controls()
    controls.stop()
    outcome = run(nap_job(), controls)
    assert outcome.status == "cancelled"
    assert naps_of(outcome.trace) == 0


def test_two_runs_of_the_same_job_leave_the_same_trace_bit_for_bit() -> None:
    first, second = (run(nap_job(steps=50)).trace for _ in range(2))
    assert first is not None
    assert second is not None
    for column in first.columns:
        assert (first[column] == second[column]).all()
