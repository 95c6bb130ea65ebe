"""Steering a worker from outside, at awkward moments: while it starts, when its listener fails, when it is killed."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.runner import client
from labkit.runner.client import Worker
from labkit.runner.job import Frame, Job, Recipe
from labkit.schedule import Budget
from tests.runner.naps import NapKnobs, Naps, nap_job, naps
from tests.runner.test_worker import Bomb, gone, soon


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def endless() -> Job:
    return nap_job(steps=100_000, nap_ms=2, simulated=False)


@pytest.mark.parametrize("end", [Worker.stop, Worker.cancel])
def test_stopped_while_it_starts_a_run_ends_at_once_and_the_worker_stays(worker: Worker, end: Callable[[Worker], None]):
    threading.Timer(0.02, end, (worker,)).start()
    outcome = worker.run(endless())
    assert (outcome.status, outcome.failure) == ("cancelled", "stopped before it had begun")
    assert worker.run(nap_job(steps=3, simulated=False)).results["done"] == 5, "three, after two to warm up"


def test_a_worker_that_is_killed_on_purpose_has_not_failed(worker: Worker):
    threading.Timer(0.02, worker.kill).start()
    outcome = worker.run(endless())
    assert (outcome.status, outcome.failure) == ("cancelled", "the worker was killed")


def test_what_a_listener_raises_is_raised_and_the_worker_does_not_go_on(worker: Worker):
    def fail(frame: Frame) -> None:
        raise LookupError("nobody listens")

    with pytest.raises(LookupError, match="nobody listens"):
        worker.run(endless(), fail)
    assert not worker.alive


def test_a_worker_that_does_not_start_is_a_failure_that_says_so(worker: Worker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "START_TIMEOUT_S", 0.0)
    outcome = worker.run(endless())
    assert (outcome.status, outcome.failure) == ("failed", "the worker process did not start within 0 s")
    assert not worker.alive


def test_what_a_worker_forked_keeps_nobody_waiting_and_ends_as_soon_as_the_worker_is_found_dead(worker: Worker, tmp_path: Path):
    children = tmp_path / "children"

    class Forking(Naps):
        def begin(self) -> None:
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            children.write_text(str(child))
            super().begin()

    def kill(frame: Frame) -> None:
        os.kill(worker.pid, signal.SIGKILL)

    recipe = Recipe("forking", naps, lambda knobs, where: Forking(), lambda knobs: {})
    outcome = worker.run(Job(recipe, NapKnobs(), "cpu", Budget(steps=100_000, warmup=0)), kill)
    assert "SIGKILL" in outcome.failure
    assert soon(lambda: gone(int(children.read_text())))


def test_a_job_that_cannot_travel_leaves_the_worker_as_it_is(worker: Worker):
    lock = threading.Lock()

    def kernel(device: Any, workload: Any, steps: Any) -> None:
        lock.acquire()

    with pytest.raises(TypeError, match="cannot pickle"):
        worker.run(nap_job(kernel=kernel))
    assert worker.run(nap_job(steps=1)).status == "ok"


def test_knobs_that_cannot_be_read_end_the_worker_rather_than_leave_it_deaf(worker: Worker):
    outcome = worker.run(endless(), lambda frame: worker.turn(Bomb()))
    assert outcome.status == "failed"
    assert "ZeroDivisionError" in outcome.detail
