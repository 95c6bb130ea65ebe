"""Starting worker processes, from one thread that lives as long as this process.

On Linux a child can be told to end when its parent dies, and "parent" is the *thread* that started it. Workers are started from whatever thread
asks for one, and such a thread may end long before the process does; so all of them are started here.
"""

import os
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue

_Order = tuple[Future[subprocess.Popen[bytes]], list[str], int, Path, dict[str, str]]


class _Spawner:
    """The thread, begun with the first order; a process that was forked begins its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._pid = 0

    def start(self, command: list[str], descriptor: int, log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        done: Future[subprocess.Popen[bytes]] = Future()
        with self._lock:
            if self._pid != os.getpid():
                self._pid, self._orders = os.getpid(), SimpleQueue()
                threading.Thread(target=self._serve, args=(self._orders,), name="labkit-spawner", daemon=True).start()
            self._orders.put((done, command, descriptor, log, environment))
        return done.result()

    def _serve(self, orders: SimpleQueue[_Order]) -> None:
        while True:
            done, command, descriptor, log, environment = orders.get()
            try:
                done.set_result(_started(command, descriptor, log, environment))
            except BaseException as error:  # it belongs to whoever asked
                done.set_exception(error)


def _started(command: list[str], descriptor: int, log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[descriptor],
            env=environment,
            start_new_session=True,
        )


_spawner = _Spawner()


def spawn(command: list[str], descriptor: int, log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that leads a session of its own, keeps one descriptor, and writes what it prints to `log`."""
    return _spawner.start(command, descriptor, log, environment)
