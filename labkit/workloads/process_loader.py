"""Batches made in worker processes, with a torch DataLoader underneath: what `loader="processes"` stands on.

    loader = ProcessLoader(work, workers=4)       # work: request → result
    made = loader.make(request)                   # in an op's run; an `Elsewhere`, which the op returns

The thread of a lane asks for a batch when its op's turn has come, and sleeps until the batch is there. So ops start in order, after
what they depend on, and only what was asked for is worked on, as with threads. Each lane thread has a process of its own, whose work
its slices show.

    make() ──pipe of its own──► process: work(request) ──DataLoader──► collector thread ──► make()

The processes are forked from a server that has torch loaded: a process that has threads must not be forked, and one that starts
anew imports torch for a second, each.
"""

import itertools
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from time import monotonic
from typing import Any

import cloudpickle
import torch
from torch.utils.data import DataLoader

from labkit.device.memory import free_memory_words
from labkit.errors import ContractError, DataError, KnobError, WorkerDied
from labkit.schedule import Elsewhere
from labkit.workloads.loader_process import STOP, Answer, Ready, Requests, as_it_is

START_TIMEOUT_S = 120.0
CLOSE_GRACE_S = 2.0
COLLECTOR_GRACE_S = 0.2
_LOADED_BEFORE_FORKING = ["torch", "torch.utils.data", "numpy", "PIL.Image", "cloudpickle"]
_CAN_PIN = hasattr(os, "sched_getaffinity")


class ProcessLoader:
    """Worker processes that make what they are asked for.

    work     request → result, called in the processes, one request at a time in each. Travels by value, so it may come from
             a notebook cell. Results are pickled; their tensors travel in shared memory
    workers  how many processes; as wide as the lane whose ops call `make`

    Returns once every process is ready. Raises WorkerDied where one is not, or what unpickling `work` raised.
    """

    def __init__(self, work: Callable[[Any], Any], workers: int):
        if workers < 1:
            raise DataError(f"{workers} loader processes are not allowed: 1 or more")
        self.workers = workers
        self.pids: dict[int, int] = {}
        self._context = _Context()
        pipes = [self._context.Pipe(duplex=False) for _ in range(workers)]
        self._inboxes = tuple(inbox for inbox, _ in pipes)
        self._lines = tuple(_Line(number, outbox) for number, (_, outbox) in enumerate(pipes))
        self._turns = itertools.cycle(self._lines)
        self._mine = threading.local()
        self._tickets = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Answer]] = {}
        self._failure: BaseException | None = None
        self._closing = False
        self._all_ready = threading.Event()
        self._collector = threading.Thread(
            target=self._collect, args=(cloudpickle.dumps(work),), name="loader-results", daemon=True
        )
        self._collector.start()
        self._wait_until_ready()

    @property
    def failed(self) -> bool:
        """Whether it makes nothing any more, because a process has died or it was closed."""
        return self._failure is not None

    def check_workers(self, wanted: int) -> None:
        """Raises KnobError where a step wants another number of processes than there are."""
        if wanted != self.workers:
            raise KnobError(
                f"workers={wanted} cannot act on a run whose loader is processes: it has {self.workers}, and they are fixed while "
                f"it goes on; end it and run again with workers={wanted}"
            )

    def make(self, request: Any) -> Elsewhere:
        """Ask this thread's process for a result, and sleep until it is there; with the times at which it was worked on.

        From any thread, in an op's `run`. Raises what the work raised, with where as a note; WorkerDied where a process died.
        """
        cores = frozenset(os.sched_getaffinity(0)) if _CAN_PIN else None
        asked = bytes(ForkingPickler.dumps(request))
        answered: Future[Answer] = Future()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            ticket = next(self._tickets)
            self._waiting[ticket] = answered
            line = self._mine.line = getattr(self._mine, "line", None) or next(self._turns)
        if not line.send(pickle.dumps((ticket, cores, asked))):
            self._fail(WorkerDied(f"loader process {line.number} {self._how_it_ended(line.number)}"))
        answer = answered.result()
        return Elsewhere(_opened(answer, line.number), answer.start_ns, answer.end_ns)

    def close(self) -> None:
        """End the processes; those that do not end within a moment are killed."""
        self._closing = True
        self._fail(ContractError("the loader is closed"))
        threading.Thread(target=self._tell_to_stop, name="loader-stop", daemon=True).start()
        deadline = monotonic() + CLOSE_GRACE_S
        for process in self._context.started:
            process.join(max(deadline - monotonic(), 0))
        self._end_processes()
        self._collector.join(COLLECTOR_GRACE_S)  # where processes had to be killed, it notices later, and ends by itself

    # ---- the collector's thread -------------------------------------------------------------------------------

    def _collect(self, work: bytes) -> None:
        """Start the processes and hand out what they send. Not in the main thread: there, torch would handle SIGCHLD."""
        try:
            answers = iter(
                DataLoader(
                    Requests(work, self._inboxes),  # type: ignore[arg-type]
                    batch_size=None,
                    num_workers=self.workers,
                    in_order=False,
                    collate_fn=as_it_is,
                    multiprocessing_context=self._context,
                    generator=torch.Generator(),  # the program's own random numbers stay as they are
                )
            )
            for inbox in self._inboxes:
                inbox.close()
            threading.Thread(target=self._watch, name="loader-watch", daemon=True).start()
            for answer in answers:
                self._take(answer)
        except Exception as error:  # a process that died, or that could not be started: every call must hear of it
            self._fail(error)
            self._end_processes()

    def _take(self, said: Ready | Answer) -> None:
        if isinstance(said, Ready):
            self.pids[said.number] = said.pid
            if len(self.pids) == self.workers:
                self._all_ready.set()
            return
        with self._lock:
            waiting = self._waiting.pop(said.ticket, None)
        if waiting is not None:
            waiting.set_result(said)

    # ---- ends -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Notice at once when a process ends; the DataLoader looks every five seconds."""
        sentinels = [process.sentinel for process in self._context.started]
        ended = connection.wait(sentinels)
        if not self._closing:
            number = sentinels.index(ended[0])  # type: ignore[arg-type]
            self._fail(WorkerDied(f"loader process {number} {self._how_it_ended(number)}"))
            self._end_processes()

    def _fail(self, failure: BaseException) -> None:
        """Nothing more is made; who waits is told why. The first reason stays."""
        with self._lock:
            self._failure = self._failure or failure
            waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            answered.set_exception(self._failure)
        self._all_ready.set()

    def _tell_to_stop(self) -> None:
        """In a thread of its own: the pipe of a busy process may be full."""
        for line in self._lines:
            line.close()

    def _end_processes(self) -> None:
        for process in self._context.started:
            if process.is_alive():
                process.kill()
        for process in self._context.started:
            process.join(CLOSE_GRACE_S)

    def _how_it_ended(self, number: int) -> str:
        """`(pid 123) was ended by SIGKILL; 1.2 GiB of memory are free now`."""
        process = self._context.started[number]
        process.join(CLOSE_GRACE_S)
        code = process.exitcode
        if code is None or code >= 0:
            return f"(pid {process.pid}) ended with exit code {code}"
        words = f"(pid {process.pid}) was ended by {signal.Signals(-code).name}"
        if -code == signal.SIGKILL:
            return f"{words}; {free_memory_words()}"
        if -code == signal.SIGBUS:
            return f"{words}: shared memory is full; start the container with --shm-size=2g, or take loader='threads'"
        return words

    def _wait_until_ready(self) -> None:
        if not self._all_ready.wait(START_TIMEOUT_S):
            missing = sorted(set(range(self.workers)) - self.pids.keys())
            self._fail(WorkerDied(f"loader processes {missing} were not ready within {START_TIMEOUT_S:.0f} s"))
        failure = self._failure
        if failure is not None:
            self.close()
            raise failure


class _Line:
    """The way to one process. Several threads may use it in turn."""

    def __init__(self, number: int, outbox: Connection):
        self.number = number
        self._outbox = outbox
        self._lock = threading.Lock()

    def send(self, message: bytes) -> bool:
        """Whether the process could be told."""
        with self._lock:
            try:
                self._outbox.send_bytes(message)
                return True
            except OSError:
                return False

    def close(self) -> None:
        """Tell the process to stop. More than once is allowed."""
        self.send(STOP)
        self._outbox.close()


class _Context(ForkServerContext):
    """Starts processes, and remembers them: a DataLoader does not say which are its own."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[BaseProcess] = []
        self.set_forkserver_preload(_LOADED_BEFORE_FORKING)

    def Process(self, *, target: Callable[..., Any], args: tuple[Any, ...]) -> BaseProcess:  # type: ignore[override]
        """A process that will be started, as the DataLoader asks for it."""
        self.started.append(super().Process(target=target, args=args))
        return self.started[-1]


def _opened(answer: Answer, number: int) -> Any:
    """The result, or raise what the work raised."""
    came = pickle.loads(answer.payload)
    if answer.ok:
        return came
    came.add_note(f"in loader process {number}:\n{answer.trail}")
    raise came
