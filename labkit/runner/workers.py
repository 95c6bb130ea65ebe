"""Workers kept warm for what they may run, and the notice of runs that are not alone on the machine."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from labkit.knobs import Knobs
from labkit.runner.client import Worker
from labkit.runner.job import Frame, Job, Outcome
from labkit.runner.watching import Watching


class Workers:
    """Workers by `Job.process`: measured runs that differ in cold knobs get a worker each, so that both stay warm. Two are kept.

    One thread at a time calls `run`; any thread may steer the job that is running.
    """

    KEPT = 2

    def __init__(self) -> None:
        self._by_process: dict[str, Worker] = {}
        self._running: Worker | None = None
        self._lock = threading.Lock()

    def run(self, job: Job, on_frame: Callable[[Frame], None] | None = None) -> Outcome:
        """Run a job on the worker that is warm for it, else on a new one."""
        worker = self._running = self.warm(job)
        try:
            watching = Watching(job, on_frame)
            with _alone() as company:
                outcome = watching.added_to(worker.run(job, watching.on_frame))
            return _warned(outcome) if company.found else outcome
        finally:
            self._running = None

    def warm(self, job: Job) -> Worker:
        """The worker for a job, started if need be, so that a later `run` finds it warm. Returns at once."""
        with self._lock:
            worker = self._by_process.pop(job.process, None)
            if worker is None or not worker.alive:
                if worker is not None:
                    worker.close()
                self._make_room()
                worker = Worker()
            self._by_process[job.process] = worker
            return worker

    def stop(self) -> None:
        """End the running job, where there is one, after the step at hand."""
        if (worker := self._running) is not None:
            worker.stop()

    def cancel(self) -> None:
        """End the running job, where there is one, now."""
        if (worker := self._running) is not None:
            worker.cancel()

    def kill(self) -> None:
        """Kill the worker of the running job, where there is one: for an op that does not end."""
        if (worker := self._running) is not None:
            worker.kill()

    def turn(self, knobs: Knobs) -> None:
        """Use these knobs from the next step of the running job on, where there is one."""
        if (worker := self._running) is not None:
            worker.turn(knobs)

    def close(self) -> None:
        """End every worker."""
        with self._lock:
            for worker in self._by_process.values():
                worker.close()
            self._by_process.clear()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_room(self) -> None:
        while len(self._by_process) >= self.KEPT:
            oldest = next(iter(self._by_process))
            self._by_process.pop(oldest).close()


class _Company:
    """Whether a run had another one of this process beside it."""

    found = False


_GOING_ON: list[_Company] = []


@contextmanager
def _alone() -> Iterator[_Company]:
    """Notice runs of this process that overlap: each measures the other."""
    mine = _Company()
    _GOING_ON.append(mine)
    for run in _GOING_ON if len(_GOING_ON) > 1 else ():
        run.found = True
    try:
        yield mine
    finally:
        _GOING_ON.remove(mine)


def _warned(outcome: Outcome) -> Outcome:
    """The outcome of a run that was not alone, with the warning that makes its verdict weak."""
    words = "another run of this process went on at the same time"
    if outcome.trace is not None:
        outcome.trace.meta["warnings"] = [*outcome.trace.meta.get("warnings", []), words]
    return replace(outcome, notes=(*outcome.notes, words))
