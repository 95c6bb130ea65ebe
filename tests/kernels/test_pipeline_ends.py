"""A pipeline ends: when an op fails, when it is cancelled, when a stage cannot even be described. It never hangs."""

import random
import threading
from types import SimpleNamespace

import pytest

from labkit.errors import OpFailed
from labkit.kernels.pipeline import pipeline
from labkit.schedule import Budget, Handle, Op, Status, Step, Steps
from tests.threads import threads_left

US = 1000
HANG_S = 30
STAGES = ("load", "copy", "augment", "forward", "backward", "update", "log")
LONG = 10_000


def drive(device, workload, knobs, watch=None, stopped=lambda: False) -> SimpleNamespace:
    """Run as the runner does, in a thread of its own with a guard against hanging: what was raised, and what was left."""
    steps = Steps(knobs, Budget(steps=LONG, warmup=0), device.now, lambda: stopped() or device.failed)
    result = SimpleNamespace(raised=None, failures=None, steps=steps)

    def go() -> None:
        try:
            pipeline(watch or device, workload, steps)
        except OpFailed as error:
            result.raised = error
            device.cancel()
        result.failures = device.close()

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive(), "the run hangs"
    result.trace = device.recorder.finish(device.now())
    return result


def opened(lab, kind: str):
    return lab.open_cpu({"workers": 2}) if kind == "cpu" else lab.open_simulated({"workers": 2})


def short_training(lab, **more):
    workload = lab.Training(load=40 * US, copy=10 * US, augment=10 * US, forward=30 * US, backward=30 * US, **more)
    workload.preparations = ("augment",)
    return workload


@pytest.mark.parametrize("kind", ["simulated", "cpu"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_failing_op_at_any_step_ends_the_run(lab, kind: str, stage: str):
    chance = random.Random(STAGES.index(stage))
    for prefetch in (0, 1, chance.randint(2, 9)):
        step = chance.randint(0, 12)
        for log_sync in (False, True):
            workload = short_training(lab, fails=(stage, step))
            (first,) = lab.steps_of([prefetch], log_sync=log_sync)
            result = drive(opened(lab, kind), workload, first.knobs)
            failed = result.trace["status"] == Status.FAILED
            assert result.trace["step"][failed].tolist() == [step]
            assert [result.trace.name_of(row) for row in failed.nonzero()[0]] == [stage]
            words = f"ValueError('{stage} of step {step}')"
            told = [repr(failure.error) for failure in result.failures] or [repr(result.raised.cause)]
            assert told == [words]
            assert result.steps.released < step + 60, "the rest of 10,000 steps was not begun"
            assert threads_left() == []


@pytest.mark.parametrize("kind", ["simulated", "cpu"])
def test_what_depends_on_the_failed_op_is_skipped_and_the_steps_before_it_are_whole(lab, kind: str):
    workload = short_training(lab, fails=("forward", 5))
    (first,) = lab.steps_of([3], log_every=0)
    trace = drive(opened(lab, kind), workload, first.knobs).trace
    status = {(trace.name_of(row), int(trace["step"][row])): Status(int(trace["status"][row])) for row in range(len(trace))}
    assert [status[stage, 5] for stage in ("load", "copy", "augment", "forward", "backward", "update")] == [
        Status.OK, Status.OK, Status.OK, Status.FAILED, Status.SKIPPED, Status.SKIPPED,
    ]  # fmt: skip
    assert all(status["update", step] is Status.OK for step in range(5))


@pytest.mark.parametrize("seed", range(12))
def test_a_cancel_between_any_two_submits_of_a_simulated_run_ends_it(lab, seed: int):
    chance = random.Random(seed)
    device, at = lab.open_simulated({"workers": 2}), chance.randint(0, 150)
    submits = iter(range(10**9))
    cancelled = threading.Event()

    def look(op: Op) -> None:
        if next(submits) == at:
            device.cancel()
            cancelled.set()

    (first,) = lab.steps_of([chance.randint(0, 9)], log_sync=chance.random() < 0.5, loader=chance.choice(["threads", "inline"]))
    workload = short_training(lab)
    result = drive(device, workload, first.knobs, lab.Watched(device, look), cancelled.is_set)
    check_cancelled(result)


@pytest.mark.parametrize("seed", range(12))
def test_a_cancel_at_any_moment_of_a_run_on_threads_ends_it(lab, seed: int):
    chance = random.Random(seed)
    device, cancelled = lab.open_cpu({"workers": 2}), threading.Event()

    def cancel() -> None:
        cancelled.set()
        device.cancel()

    timer = threading.Timer(chance.uniform(0, 0.03), cancel)
    timer.start()
    (first,) = lab.steps_of([chance.randint(0, 9)], log_sync=chance.random() < 0.5, loader=chance.choice(["threads", "inline"]))
    result = drive(device, short_training(lab), first.knobs, stopped=cancelled.is_set)
    timer.join()
    check_cancelled(result)
    assert threads_left() == []


def check_cancelled(result: SimpleNamespace) -> None:
    statuses = set(result.trace["status"].tolist())
    assert statuses <= {Status.OK, Status.CANCELLED, Status.SKIPPED}
    assert (result.failures, result.raised) == ([], None), "a cancelled run is no failed run"
    assert result.steps.released < LONG


def test_a_stop_lets_what_is_in_flight_finish(lab):
    device, workload = lab.open_simulated({"workers": 2}), short_training(lab)
    (first,) = lab.steps_of([4])
    steps = Steps(first.knobs, Budget(steps=LONG, warmup=0), device.now, lambda: steps.released == 7)
    pipeline(device, workload, steps)
    trace = device.recorder.finish(device.now())
    assert set(trace["status"].tolist()) == {Status.OK}
    assert workload.logged_steps == list(range(7))


def test_a_workload_that_cannot_say_what_to_do_raises_out_of_the_kernel(lab):
    class Refusing(lab.Training):
        def forward(self, step: Step) -> Op:
            raise ValueError("no forward today")

    device = lab.open_simulated()
    with pytest.raises(ValueError, match="no forward today"):
        pipeline(device, Refusing(), lab.steps_of([2] * 9))
    assert device.close() == []


def test_a_failed_log_that_nobody_reads_is_reported_at_the_end(lab):
    class Deaf(lab.Training):
        def logged(self, step: Step, log: Handle) -> None:
            self.logged_steps.append(step.index)

    device, workload = lab.open_simulated(), Deaf(fails=("log", 3))
    pipeline(device, workload, lab.steps_of([2] * 6))
    assert [(failure.name, str(failure.error)) for failure in device.close()] == [("log", "log of step 3")]
    assert workload.logged_steps == list(range(6))
