"""What runs in a loader process: it takes requests from a pipe of its own, and says of each what came of it, and when.

`process_loader.py` starts these processes as the workers of a torch DataLoader, whose data set is `Requests`.
"""

import ctypes
import os
import pickle
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple

import cloudpickle
from torch.utils.data import IterableDataset, get_worker_info

from labkit.errors import DataError, OpFailed
from labkit.units import format_bytes
from labkit.workloads.batches import bytes_of

SHARED_MEMORY = Path("/dev/shm")
STOP = b""
_PR_SET_PDEATHSIG = 1


class Ready(NamedTuple):
    """The first thing that a process says."""

    number: int
    pid: int


class Answer(NamedTuple):
    """What came of a request, and when the work on it began and ended, of `time.perf_counter_ns`.

    payload  the pickled result; where `ok` is false, the pickled exception
    trail    where it was raised, for people
    """

    ticket: int
    start_ns: int
    end_ns: int
    ok: bool
    payload: bytes
    trail: str = ""


class Requests(IterableDataset):
    """Yields a `Ready`, then an `Answer` to each request, until it is told to stop.

    work     request → result, pickled by value
    inboxes  the pipe of each process: pickled (ticket, cores, pickled request), or STOP
    """

    def __init__(self, work: bytes, inboxes: tuple[Connection, ...]):
        self._work = work
        self._inboxes = inboxes

    def __iter__(self) -> Iterator[Ready | Answer]:
        _end_with_parent()
        number = get_worker_info().id
        inbox = self._inboxes[number]
        for other in self._inboxes:
            if other is not inbox:
                other.close()
        work = cloudpickle.loads(self._work)
        yield Ready(number, os.getpid())
        cores: frozenset[int] | None = None
        while (message := inbox.recv_bytes()) != STOP:
            ticket, wanted_cores, request = pickle.loads(message)
            if wanted_cores != cores:
                cores = wanted_cores
                _keep_to(cores)
            yield _answer(work, ticket, request)


def as_it_is(item: Any) -> Any:
    """What the DataLoader makes of an item: nothing else."""
    return item


def _answer(work: Callable[[Any], Any], ticket: int, request: bytes) -> Answer:
    """Do the work and pickle its result, which moves tensors to shared memory: a process can do nothing else meanwhile."""
    start_ns = perf_counter_ns()
    try:
        payload, ok, trail = _pickled_result(work(pickle.loads(request))), True, ""
    except BaseException as error:  # the work is a user's: whatever it raises is the answer, sys.exit() too
        payload, ok, trail = _pickled_error(error), False, "".join(traceback.format_exception(error))
    return Answer(ticket, start_ns, max(perf_counter_ns(), start_ns + 1), ok, payload, trail)


def _pickled_result(result: Any) -> bytes:
    try:
        return bytes(ForkingPickler.dumps(result))
    except RuntimeError as error:
        if "No space left on device" not in str(error):
            raise
        free = shutil.disk_usage(SHARED_MEMORY).free
        raise DataError(
            f"a loader process needs {format_bytes(bytes_of(result))} of shared memory for its batch and {format_bytes(free)} are "
            f"free in {SHARED_MEMORY}: start the container with --shm-size=2g, load fewer batches ahead or smaller ones, or "
            "take loader='threads'"
        ) from error


def _pickled_error(error: BaseException) -> bytes:
    """The exception if it survives the journey, else its words."""
    try:
        payload = pickle.dumps(error)
        pickle.loads(payload)
        return payload
    except Exception:  # pickling runs code of the exception's own
        return pickle.dumps(OpFailed(f"{type(error).__name__}: {error}"))


def _keep_to(cores: frozenset[int] | None) -> None:
    """Run on these cores only, every thread of this process."""
    for thread in os.listdir("/proc/self/task") if cores is not None else ():
        try:
            os.sched_setaffinity(int(thread), cores)
        except OSError:
            pass  # the thread has just ended, or the system forbids it: it then runs where it may, which is only slower


def _end_with_parent() -> None:
    """End this process at the death of the one that it loads for, and on Linux of the server that has forked it."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), name="loader-parent", daemon=True).start()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
