"""The caller's side of a worker process: start it, give it jobs, steer them, and survive its death.

Whatever happens, `run` comes back with an outcome: a worker that is killed, runs out of memory or hangs after a cancel
gives a failed or cancelled outcome with the reason.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import cloudpickle

from labkit.device.memory import free_memory_words
from labkit.errors import TraceError, WorkerDied
from labkit.knobs import Knobs
from labkit.runner.job import Frame, Job, Outcome
from labkit.runner.scratch import Scratch
from labkit.runner.spawn import spawn
from labkit.trace.parquet import read_parquet, requests_file

START_TIMEOUT_S = 180.0
STOP_GRACE_S = 10.0
CLOSE_GRACE_S = 5.0
POLL_S = 0.1
FIRST_DESCRIPTOR = 10  # where a caller has closed its standard streams, the socket must not take their places
_START = (  # modules are found where the caller finds them, and nowhere else
    "import os, sys; sys.path[:] = sys.argv.pop().split(os.pathsep); from labkit.runner.worker import main; main()"
)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


_NEW_KNOBS = ("newest knobs",)


class _NeverStarted(WorkerDied):
    """The process was not ready in time."""


class Worker:
    """A warm worker process. Use as a context manager; one thread at a time calls `run`, any thread may steer."""

    def __init__(self) -> None:
        self._folder = Scratch()
        self._log = self._folder.path / "log.txt"
        self._runs = 0
        ours, theirs = socket.socketpair()
        descriptor = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
        options = [str(descriptor), str(os.getpid()), os.pathsep.join(sys.path)]
        command = [sys.executable, "-P", "-c", _START, *options]
        self._process = spawn(command, descriptor, self._log, {**_ONE_THREAD, **os.environ})
        theirs.close()
        os.close(descriptor)
        self._link = Connection(ours.detach())
        self._outbox: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._new_knobs: bytes | None = None
        self._ready = False
        self._stop_wanted = False
        self._killed = False
        self._inbox: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        threading.Thread(target=self._read, name="labkit-worker-reader", daemon=True).start()
        threading.Thread(target=self._write, name="labkit-worker-writer", daemon=True).start()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def run(self, job: Job, on_frame: Callable[[Frame], None] | None = None) -> Outcome:
        """Run one job to its end. A first Ctrl-C stops it in good order, a second one kills the worker.

        What `on_frame` raises is raised here, and the worker killed: it would go on with a job that nobody hears of.
        """
        began = monotonic()
        trace_path = self._folder.path / f"trace-{self._runs}.parquet"
        self._runs += 1
        interrupts = 0
        deadline: float | None = None
        sent = False
        outcome: Outcome | None = None
        self._stop_wanted = False
        while True:
            try:
                if not sent:
                    self._wait_until_ready()
                    if self._stop_wanted:
                        return Outcome("cancelled", "stopped before it had begun", None, monotonic() - began)
                    self._send(("run", cloudpickle.dumps(job), str(trace_path)))
                    sent = True
                    if self._stop_wanted:  # asked for meanwhile, and forgotten by the worker when the job came
                        self._send(("stop",))
                outcome = outcome or self._receive(on_frame, deadline)
                return self._with_trace(outcome, interrupts > 0)
            except KeyboardInterrupt:
                interrupts += 1
                if outcome is not None:  # it is done: there is nobody to stop, and its trace is read once more
                    continue
                deadline = monotonic() + STOP_GRACE_S
                if interrupts > 1 or not sent:
                    self.kill()
                    return Outcome("cancelled", "interrupted; the worker was killed", None, monotonic() - began)
                self._send(("cancel",))
            except TimeoutError:
                self.kill()
                reason = f"cancelled; the running op did not end within {STOP_GRACE_S:.0f} s, so the worker was killed"
                return Outcome("cancelled", reason, None, monotonic() - began)
            except _NeverStarted as error:
                return Outcome("failed", str(error), None, monotonic() - began, detail=self._log_tail())
            except (EOFError, OSError, WorkerDied) as error:
                return self._died(error, monotonic() - began)
            except BaseException:
                if sent:
                    self.kill()
                raise

    def stop(self) -> None:
        """End the running job after the step at hand."""
        self._stop_wanted = True
        self._send(("stop",))

    def cancel(self) -> None:
        """End the running job now; what has not started is dropped."""
        self._stop_wanted = True
        self._send(("cancel",))

    def turn(self, knobs: Knobs) -> None:
        """Use these knobs from the next step on."""
        self._new_knobs = cloudpickle.dumps(knobs)  # their class may be of a notebook cell
        self._send(_NEW_KNOBS)

    def close(self) -> None:
        """Let the process end, and make sure that it has."""
        if self.alive:
            try:
                self._send(("close",))
                self._process.wait(CLOSE_GRACE_S)
            except (OSError, subprocess.TimeoutExpired):
                self.kill()
        self._end_descendants()
        self._outbox.put(None)
        self._link.close()
        self._folder.close()

    def kill(self) -> None:
        """End the process at once, and what user code has started in it."""
        self._killed = True
        self._process.kill()
        self._process.wait()
        self._end_descendants()

    def _end_descendants(self) -> None:
        """The worker leads a session of its own: what is still in its group was left there by user code."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # nothing is left

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until_ready(self) -> None:
        deadline = monotonic() + START_TIMEOUT_S
        while not self._ready and not self._stop_wanted:
            if monotonic() > deadline:
                self.kill()
                raise _NeverStarted(f"the worker process did not start within {START_TIMEOUT_S:.0f} s")
            message = self._next()
            self._ready = message is not None and message[0] == "ready"

    def _receive(self, on_frame: Callable[[Frame], None] | None, deadline: float | None) -> Outcome:
        while True:
            message = self._next()
            if message is not None and message[0] == "done":
                return message[1]
            if message is not None and message[0] == "frame" and on_frame is not None:
                on_frame(message[1] if self._inbox.empty() else replace(message[1], late=True))
            if deadline is not None and monotonic() > deadline:
                raise TimeoutError

    def _next(self) -> tuple[Any, ...] | None:
        """The next message; None after a short while without one. Raises WorkerDied when there will be none."""
        try:
            message = self._inbox.get(timeout=POLL_S)
        except Empty:
            if not self.alive and self._inbox.empty():  # a child that user code forked may hold the connection open
                raise WorkerDied("the worker process ended") from None
            return None
        if message is None:
            self._inbox.put(None)
            raise WorkerDied("the worker process ended")
        return message

    def _read(self) -> None:
        """Runs in a thread, so that a Ctrl-C in the caller can never cut a message in two."""
        while True:
            try:
                self._inbox.put(self._link.recv())
            except (EOFError, OSError):
                self._inbox.put(None)
                return
            except Exception as error:  # what came back runs code of its own when it is unpickled
                words = f"the workload's results and notes must be plain data: {error!r}"
                self._inbox.put(("done", Outcome("failed", words, None, 0.0)))

    def _with_trace(self, outcome: Outcome, interrupted: bool) -> Outcome:
        if interrupted and outcome.status == "ok":
            outcome = replace(outcome, status="cancelled", failure="interrupted")
        if outcome.trace_file is None:
            return outcome
        try:
            done = replace(outcome, trace=read_parquet(outcome.trace_file), trace_file=None)
        except TraceError as error:
            done = replace(outcome, status="failed", failure=str(error), trace_file=None)
        outcome.trace_file.unlink(missing_ok=True)  # not where reading was interrupted: it is read again
        requests_file(outcome.trace_file).unlink(missing_ok=True)
        return done

    def _send(self, message: tuple[Any, ...]) -> None:
        """Send this in its turn. Returns at once, also where the worker does not read what it is sent."""
        self._outbox.put(message)

    def _write(self) -> None:
        """Runs in a thread, so that no caller ever waits for a worker that is stuck, nor is cut off within a message."""
        while (message := self._outbox.get()) is not None:
            if message == _NEW_KNOBS:
                knobs, self._new_knobs = self._new_knobs, None
                if knobs is None:  # the newest have been sent already
                    continue
                message = ("knobs", knobs)
            try:
                self._link.send(message)
            except OSError:
                return  # it is gone: `run` says how it ended

    def _died(self, error: BaseException, wall_s: float) -> Outcome:
        """The outcome of a job whose worker has died; what it left behind ends too."""
        killed = self._killed
        reason = self._how_it_died(error)
        self._end_descendants()
        if killed:
            return Outcome("cancelled", "the worker was killed", None, wall_s)
        return Outcome("failed", reason, None, wall_s, detail=self._log_tail())

    def _how_it_died(self, error: BaseException) -> str:
        try:
            code = self._process.wait(CLOSE_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"the connection to the worker broke: {error!r}"
        if code < 0:
            name = signal.Signals(-code).name
            hint = f"; {free_memory_words()}" if -code == signal.SIGKILL else ""
            return f"the worker process was ended by {name}{hint}"
        return f"the worker process ended with exit code {code}"

    def _log_tail(self) -> str:
        try:
            return self._log.read_text(errors="replace")[-2000:]
        except OSError:
            return ""
