"""The worker process, which `client.py` starts. Runs jobs that arrive on a socket; keeps its set-ups warm.

Isolation makes Stop, an out-of-memory and thread counts harmless to the caller. The worker ends with its parent: end of
file on the socket, and on Linux a signal at the parent's death. Ctrl-C is the parent's to handle.

Messages are pickled tuples. In: ("run", job bytes, trace path), ("knobs", model bytes), ("stop",), ("cancel",), ("close",).
Out: ("ready", pid), ("frame", Frame), ("done", Outcome without its trace, which lies at the path).
"""

import ctypes
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

_PR_SET_PDEATHSIG = 1
SETUPS_KEPT = 2


def main() -> None:
    """Serve jobs until the socket closes."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent(parent)
    link = Connection(os.dup(descriptor))
    os.close(descriptor)
    os.register_at_fork(after_in_child=link.close)  # what user code forks must not hold the connection open
    Server(link).serve()


class Server:
    """One connection: a thread reads what comes in, the main thread runs the jobs."""

    def __init__(self, link: Connection):
        self._link = link
        self._send_lock = threading.Lock()
        self._jobs: SimpleQueue[tuple[bytes, str] | None] = SimpleQueue()
        self._controls: Any = None
        self._stop_next = False
        self._setups: dict[tuple[str, bytes], Any] = {}

    def serve(self) -> None:
        """Announce readiness, then run one job after another."""
        from labkit.device.live import LiveDevice  # noqa: F401  (paid for before the first job arrives)

        threading.Thread(target=self._listen, daemon=True).start()
        self._send(("ready", os.getpid()))
        while (message := self._jobs.get()) is not None:
            self._send_outcome(self._run(*message))
        for workload in self._setups.values():
            workload.close()

    def _send_outcome(self, outcome: Any) -> None:
        """Send an outcome; one that cannot be pickled becomes a failure that says so."""
        try:
            json.dumps([outcome.results, outcome.notes])
            self._send(("done", outcome))
        except Exception as error:  # pickling runs code of the values' own
            words = f"the workload's results and notes must be plain data: {error}"
            self._send(("done", replace(outcome, status="failed", failure=words, results={}, notes=())))

    def _listen(self) -> None:
        try:
            while True:
                self._handle(self._link.recv())
        except (EOFError, OSError):
            pass  # the parent is gone, or has closed the connection: nobody wants the rest
        except Exception:  # unpickling runs code of the values' own; without this thread nobody could stop a job
            traceback.print_exc()
        _end()

    def _handle(self, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == "run":
            self._stop_next = False
            self._jobs.put((message[1], message[2]))
        elif kind == "close":
            self._jobs.put(None)
        elif kind in ("stop", "cancel"):
            self._stop_next = True
            if self._controls is not None:
                getattr(self._controls, kind)()
        elif kind == "knobs" and self._controls is not None:
            self._controls.turn(pickle.loads(message[1]))

    def _run(self, job_bytes: bytes, trace_path: str) -> Any:
        from labkit.allocation.hold import hold
        from labkit.errors import LabkitError
        from labkit.runner.job import Outcome

        try:
            job = pickle.loads(job_bytes)
            with hold(job.allocation, job.device) as holding:
                return self._run_on(job, self._set_up(job, job_bytes), holding, trace_path)
        except BaseException as error:  # a user's data, model, function or policy: its failure is the run's outcome
            detail = "" if isinstance(error, LabkitError) else traceback.format_exc(limit=-4)
            return Outcome("failed", _words(error), None, 0.0, detail=detail)

    def _run_on(self, job: Any, workload: Any, holding: Any, trace_path: str) -> Any:
        """Run a job whose workload is ready and whose allocation is in force."""
        from labkit.runner.execute import Controls, execute
        from labkit.runner.frames import FrameSender

        self._controls = controls = Controls()
        if self._stop_next:
            controls.stop()
        sampler = _started_sampler(job)
        frames = FrameSender(controls, sampler if job.live else None, self._send)
        frames.start()
        try:
            outcome = execute(job, workload, controls, holding)
        finally:
            frames.stop()
            self._controls = None
        if sampler is not None:
            sampler.stop()
            outcome = replace(outcome, monitor={} if job.where == "simulated" else sampler.summary())
        return self._written(outcome, Path(trace_path))

    def _set_up(self, job: Any, job_bytes: bytes) -> Any:
        """The workload for a job; the last few are kept, since building one costs seconds."""
        import cloudpickle

        key = (job.set_up, cloudpickle.dumps(job.recipe))
        if key not in self._setups:
            while len(self._setups) >= SETUPS_KEPT:
                self._setups.pop(next(iter(self._setups))).close()
            self._setups[key] = _prepared(job)
        return self._setups[key]

    def _written(self, outcome: Any, path: Path) -> Any:
        from labkit.trace.parquet import write_parquet

        if outcome.trace is None:
            return outcome
        try:
            write_parquet(outcome.trace, path)
        except OSError as error:
            reason = f"the trace could not be written to {path}: {error.strerror or error}"
            return replace(outcome, status="failed", failure=reason, trace=None)
        return replace(outcome, trace=None, trace_file=path)

    def _send(self, message: tuple[Any, ...]) -> None:
        with self._send_lock:
            try:
                self._link.send(message)
            except OSError:
                _end()  # the parent is gone


def _prepared(job: Any) -> Any:
    """The workload of a job, with torch held to one thread for each lane."""
    import torch

    torch.set_num_threads(1)
    return job.recipe.prepare(job.knobs, job.where)


def _started_sampler(job: Any) -> Any:
    """The sensors of a measured run, or of one that somebody watches; None for a prediction that nobody does."""
    if job.where == "simulated" and not job.live:
        return None
    from labkit.monitor import start_monitor

    return start_monitor(job.device)


def _words(error: BaseException) -> str:
    from labkit.errors import LabkitError
    from labkit.runner.execute import error_words

    return str(error) if isinstance(error, LabkitError) else error_words(error)


def _end() -> None:
    """End this process and what it has started: the worker leads a process group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _die_with_parent(parent: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the signal was armed
        os._exit(0)


if __name__ == "__main__":
    main()
