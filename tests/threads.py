"""The lab's threads that are alive, for tests that want none left."""

import threading
from time import monotonic, sleep

# It lives as long as its process: the parent-death signal of every worker hangs on the thread that spawned it.
STAYS = "labkit-spawner"


_there_before: set[threading.Thread] = set()


def remember_threads() -> None:
    """What is alive now is not this test's: called before each test."""
    _there_before.clear()
    _there_before.update(threading.enumerate())


def labkit_threads() -> list[str]:
    """Names of the lab's live threads that began in this test, but the spawner's."""
    names = (thread.name for thread in threading.enumerate() if thread not in _there_before)
    return [name for name in names if name.startswith("labkit-") and name != STAYS]


def threads_left(within_s: float = 20.0) -> list[str]:
    """Names of the lab's threads that are still alive after that time; returns at once where there are none.

    A thread of the test before, which was told to end, may take a moment on a busy machine.
    """
    until = monotonic() + within_s
    while (names := labkit_threads()) and monotonic() < until:
        sleep(0.01)
    return names
