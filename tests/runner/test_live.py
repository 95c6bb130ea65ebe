"""A live run: its frames carry what was recorded, a simulated device keeps to the wall clock, and a Stop is how it ends."""

import threading
from time import monotonic, sleep

import pytest

from labkit.experiments import experiment
from labkit.lab import job_of
from labkit.runner.execute import Controls, execute
from labkit.runner.job import Frame, Job, Outcome
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from labkit.trace.mirror import Mirror

PIPELINE = experiment("pipeline")
HANG_S = 60.0


def live_job(device: str, seconds: float, **knobs: object) -> Job:
    return job_of(PIPELINE, PIPELINE.knobs.parse({"image_size": 32, "batch_size": 4, **knobs}), device, Budget(seconds=seconds), live=True)


@pytest.fixture(scope="module")
def workers():
    with Workers() as pool:
        yield pool


@pytest.mark.parametrize("device", ["cpu", "simulated:t4"])
def test_the_parts_of_its_frames_put_together_are_its_trace(workers: Workers, device: str):
    mirror = Mirror()
    frames: list[Frame] = []

    def on_frame(frame: Frame) -> None:
        frames.append(frame)
        mirror.take(frame.live.part)

    outcome = workers.run(live_job(device, 1.0), on_frame)
    assert outcome.status == "ok"
    trace = mirror.trace()
    assert trace["op"].tolist() == outcome.trace["op"].tolist()
    assert trace["end_ns"].tolist() == outcome.trace["end_ns"].tolist()
    assert len(frames) >= 4
    assert all(frame.live.watching_s < 0.5 for frame in frames)


def test_a_toggle_shows_in_a_frame_and_in_the_trace(workers: Workers):
    job = live_job("cpu", 1.5)
    marks = []

    def on_frame(frame: Frame) -> None:
        marks.extend(frame.live.part.marks)
        if frame.step > 5:
            workers.turn(job.knobs.changed(prefetch=7))

    outcome = workers.run(job, on_frame)
    assert [(mark.knob, mark.old, mark.new) for mark in marks] == [("prefetch", 2, 7)]
    assert [mark.knob for mark in outcome.trace.marks] == ["prefetch"]


def test_it_reads_the_hosts_sensors(workers: Workers):
    readings = {}
    workers.run(live_job("cpu", 1.2), lambda frame: readings.update(frame.live.monitor))
    assert readings["machine_cpu_share"].value > 0


def test_stopped_by_hand_it_has_succeeded_and_says_so(workers: Workers):
    outcome = workers.run(live_job("cpu", 3600.0), lambda frame: workers.stop() if frame.step > 20 else None)
    assert (outcome.status, outcome.failure) == ("ok", "")
    assert "ended by hand" in outcome.notes


def test_stopped_while_the_worker_starts_it_ends_at_once():
    with Workers() as pool:
        job = live_job("cpu", 3600.0)
        worker = pool.warm(job)  # it is there, and will be ready in a second or so
        ended: list[Outcome] = []
        running = threading.Thread(target=lambda: ended.append(pool.run(job)))
        running.start()
        while running.is_alive():
            worker.stop()
            running.join(0.05)
    begun = "ended by hand" in ended[0].notes
    expected = ("ok", "") if begun else ("cancelled", "stopped before it had begun")
    assert (ended[0].status, ended[0].failure) == expected


def test_cancelled_it_has_not_succeeded(workers: Workers):
    outcome = workers.run(live_job("cpu", 3600.0), lambda frame: workers.cancel() if frame.step > 20 else None)
    assert outcome.status == "cancelled"


def test_a_simulated_run_keeps_to_the_wall_clock_and_never_runs_ahead(workers: Workers):
    ahead = []
    began = None

    def on_frame(frame: Frame) -> None:
        nonlocal began
        began = began if began is not None else monotonic() - frame.live.part.now_ns / 1e9
        ahead.append(frame.live.part.now_ns / 1e9 - (monotonic() - began))

    outcome = workers.run(live_job("simulated:t4", 1.0), on_frame)
    assert outcome.wall_s >= 1.0
    longest_step_s = outcome.trace["end_ns"].max() / 1e9 - 1.0
    assert max(ahead) < longest_step_s + 0.5


def test_a_stop_ends_the_waiting_of_a_simulated_run_that_is_ahead():
    job = live_job("simulated:t4", 3600.0, batch_size=512, image_size=128)
    controls = Controls()
    workload = job.recipe.prepare(job.knobs, job.where)
    threading.Timer(0.5, controls.stop).start()
    began = monotonic()
    outcome = execute(job, workload, controls)
    assert outcome.status == "ok"
    assert monotonic() - began < HANG_S


def test_two_runs_of_one_process_at_once_are_weak_and_say_why(workers: Workers):
    with Workers() as other:
        thread = threading.Thread(target=other.run, args=(live_job("cpu", 2.0),))
        thread.start()
        sleep(0.1)
        outcome = workers.run(live_job("cpu", 0.3))
        thread.join()
    assert "another run of this process went on at the same time" in outcome.notes
    assert "another run of this process went on at the same time" in outcome.trace.meta["warnings"]


def test_a_run_alone_has_no_such_note(workers: Workers):
    assert not any("another run" in note for note in workers.run(live_job("cpu", 0.3)).notes)


def test_frames_that_wait_for_a_slow_reader_are_late_and_lose_nothing(workers: Workers):
    mirror = Mirror()
    late = []

    def slow(frame: Frame) -> None:
        late.append(frame.late)
        mirror.take(frame.live.part)
        sleep(0.35)

    outcome = workers.run(live_job("cpu", 1.5), slow)
    assert True in late and late[0] is False
    assert mirror.trace()["op"].tolist() == outcome.trace["op"].tolist()
