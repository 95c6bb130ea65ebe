"""The turnstile before the devices of this machine: runs that are watched take turns, or each would measure the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition


class Turnstile:
    """Lets one in at a time, in the order of their coming."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._line: list[object] = []

    @contextmanager
    def turn(self, on_wait: Callable[[], None], given_up: Callable[[], bool]) -> Iterator[bool]:
        """Wait for one's turn and hold it. Gives False where the wait was given up.

        on_wait   told once, if there is somebody before
        given_up  asked while waiting; `nudge` makes it be asked at once
        """
        ticket = object()
        try:
            with self._changed:
                self._line.append(ticket)
                first = self._line[0] is ticket
            if not first:
                on_wait()
            with self._changed:
                while self._line[0] is not ticket and not given_up():
                    self._changed.wait(0.2)
                mine = self._line[0] is ticket
            yield mine
        finally:
            with self._changed:
                self._line.remove(ticket)
                self._changed.notify_all()

    def nudge(self) -> None:
        """Let those who wait look whether they still want to."""
        with self._changed:
            self._changed.notify_all()


DEVICES = Turnstile()
"""One for this process: cpu, GPU and simulations share the cores."""
