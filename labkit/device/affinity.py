"""Which thread runs on which cores: compute lanes get cores of their own, all other lane threads share the rest.

The compute thread stands where a GPU would, and a GPU is not slowed by the host's workers. Left to itself a scheduler may
also keep two busy threads on one core while another is idle, and overlap that the program has would not be seen.
"""

import os
import threading

from labkit.schedule import Lane

_CAN_PIN = hasattr(os, "sched_setaffinity")


class Affinity:
    """Places the lane threads of one device on the cores that this process may use.

    shares  cores of each thread of a role, 1 where not given
    Does nothing where there is one core only, or where the system has no call for it (macOS, Windows).
    """

    def __init__(self, shares: dict[str, int]):
        self._shares = shares
        self._threads: dict[int, Lane] = {}
        self._lock = threading.Lock()
        self._cores = sorted(os.sched_getaffinity(0)) if _CAN_PIN else []

    @property
    def active(self) -> bool:
        """Whether threads are placed at all."""
        return len(self._cores) > 1

    def use(self, cores: list[int]) -> None:
        """Place all threads on these cores from now on; nothing where the system has no call for it."""
        if self._cores:
            with self._lock:
                self._cores = sorted(cores)
                self._place()

    def join(self, lane: Lane) -> None:
        """The calling thread serves `lane` from now on."""
        if self._cores:
            with self._lock:
                self._threads[threading.get_native_id()] = lane
                self._place()

    def leave(self) -> None:
        """The calling thread is about to end."""
        if self._cores:
            with self._lock:
                self._threads.pop(threading.get_native_id(), None)
                self._place()

    def _place(self) -> None:
        rest = list(self._cores)
        sharing = []
        for thread, lane in sorted(self._threads.items()):
            share = self._shares.get(lane.role, 1)
            if lane.role == "compute" and len(rest) > share:
                _pin(thread, rest[:share])
                rest = rest[share:]
            else:
                sharing.append(thread)
        for thread in sharing:
            _pin(thread, rest)


def _pin(thread: int, cores: list[int]) -> None:
    try:
        os.sched_setaffinity(thread, cores)
    except OSError:
        pass  # the thread has just ended, or the system forbids it: it then runs where it may, which is only slower
