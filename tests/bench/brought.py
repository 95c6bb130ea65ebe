"""Requests that another thread brings: how a load generator that is not ours drives the server.

As every source of requests it never looks at the server. Nobody knows when the next request comes, so `next_ns` lies far away until
one is there, and whoever brings it wakes the server's host.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from labkit.schedule import Request

FAR_NS = 1 << 60
"""36 years: longer than any run."""


class Host(Protocol):
    """What is needed of a device: its clock, and a way to end its host's wait."""

    def now(self) -> int:
        """Nanoseconds since it was opened."""
        ...

    def wake(self) -> None:
        """End its host's wait."""
        ...


class Brought:
    """A source of requests (`schedule/arrivals.py`); they are due when they are brought."""

    def __init__(self, host: Host):
        self._host = host
        self._there: deque[Request] = deque()
        self._count = 0
        self._closed = False

    def bring(self, count: int = 1, number_them: Callable[[int], None] = lambda first: None) -> None:
        """So many requests are due now. Called by one thread other than the server's; `number_them` is told the first one's number before the server sees any."""
        due_ns, first = self._host.now(), self._count
        number_them(first)
        self._count += count
        self._there.extend([Request(first + place, due_ns) for place in range(count)])
        self._host.wake()

    def close(self) -> None:
        """No more will come."""
        self._closed = True
        self._host.wake()

    @property
    def next_ns(self) -> int | None:
        """When the next one is due; far away while nobody knows, None after the last."""
        closed = self._closed  # before the look: what is brought before the end is seen
        if self._there:
            return self._there[0].due_ns
        return None if closed else FAR_NS

    def take(self, now_ns: int) -> list[Request]:
        """The requests that are due by now, in order, each of them once."""
        taken = []
        while self._there and self._there[0].due_ns <= now_ns:
            taken.append(self._there.popleft())
        return taken

    def turn(self, now_ns: int, rate: float, shape: str) -> None:
        """Whoever brings them decides."""
