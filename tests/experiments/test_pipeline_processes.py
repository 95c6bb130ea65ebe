"""Runs whose loader is processes, by the way that every run takes: they end well, they fail in words, and they leave nothing behind."""

import os
import signal
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any

import psutil
import pytest

import labkit
from labkit.metrics.stalls import account
from labkit.result import Run
from labkit.runner.workers import Workers
from labkit.schedule import Status

HANG_GUARD_S = 60
SMALL = {"device": "cpu", "image_size": 32, "batch_size": 4, "loader": "processes"}
ENDLESS = 1_000_000


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Warm workers, so that processes are started once; in the end nothing that they started is left."""
    before = set(psutil.Process().children(recursive=True))
    with Workers() as workers:
        yield workers
        assert loader_processes(), "the processes are kept warm"
    assert soon(lambda: not [child for child in psutil.Process().children(recursive=True) if child not in before])


def soon(condition: Callable[[], bool]) -> bool:
    deadline = monotonic() + HANG_GUARD_S
    while not condition() and monotonic() < deadline:
        sleep(0.02)
    return condition()


def loader_processes() -> list[psutil.Process]:
    """The processes that a fork server of a worker has forked: they bear its command line."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            parent = child.parent()
            if parent is not None and "forkserver" in " ".join(parent.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:  # it has just ended
            continue
    return found


def run(pool: Workers, **more: Any) -> Run:
    return labkit.run("pipeline", **{**SMALL, "steps": 20, "pool": pool, **more})


def test_a_run_with_two_processes_shows_their_work_on_the_lane_of_workers(workers: Workers) -> None:
    done = run(workers, workers=2, prefetch=4)
    assert done.record.status == "ok", done.record.reason
    trace = done.trace
    rows = trace.rows_on("workers")
    assert len(rows) == 28 and {trace.name_of(row) for row in rows} == {"decode+augment+normalise"}
    assert set(trace["unit"][rows].tolist()) == {0, 1}
    for unit in account(trace):  # raises where slices of a unit overlap
        assert unit.busy_ns + sum(end - start for start, end, _ in unit.stalls) == unit.span_ns
    assert len(loader_processes()) == 2


def test_stop_ends_a_run_at_once_and_the_next_one_finds_its_processes_warm(workers: Workers) -> None:
    before = {process.pid for process in loader_processes()}
    stopped = run(workers, workers=2, steps=ENDLESS, on_frame=lambda frame: workers.stop())
    assert (stopped.record.status, stopped.record.reason) == ("cancelled", "stopped before its budget was spent")
    cancelled = run(workers, workers=2, steps=ENDLESS, on_frame=lambda frame: workers.cancel())
    assert cancelled.record.status == "cancelled"
    again = run(workers, workers=2)
    assert again.record.status == "ok", again.record.reason
    assert {process.pid for process in loader_processes()} == before


def test_a_process_that_is_killed_fails_the_run_with_the_reason_and_the_next_run_has_new_ones(workers: Workers) -> None:
    killed: list[int] = []

    def kill(frame: Any) -> None:
        if not killed:
            killed.append(loader_processes()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    failed = run(workers, workers=2, steps=ENDLESS, on_frame=kill)
    assert failed.record.status == "failed"
    assert failed.record.reason.startswith("op 'decode+augment+normalise': WorkerDied: loader process ")
    assert f"(pid {killed[0]}) was ended by SIGKILL" in failed.record.reason
    assert soon(lambda: not loader_processes()), "nor does the other one go on"
    assert (failed.trace["status"] == Status.FAILED).any()
    account(failed.trace)
    assert run(workers, workers=2).record.status == "ok"
    assert len(loader_processes()) == 2


def test_another_number_of_workers_is_another_set_up(workers: Workers) -> None:
    assert run(workers, workers=1).record.status == "ok"
    assert len(loader_processes()) == 3, "both are kept warm"
