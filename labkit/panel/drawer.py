"""The drawer: a thread that draws results below the panel, the newest only, at most once a second.

A result that comes while another is drawn replaces the one that waits. So drawing never holds up the run that is watched, and
nothing queues.
"""

import threading
from collections.abc import Callable
from time import monotonic

from labkit.metrics.summary import Summary
from labkit.panel.page import EMPTY, SLOTS, Bundle, page, runs_of
from labkit.panel.state import Result

PERIOD_S = 1.0


class Drawer:
    """Draws results.

    put       shows a bundle in a slot
    on_error  told what went wrong; drawing goes on with the next result
    drawn     told after each result, with the summary of B
    """

    def __init__(
        self,
        put: Callable[[str, Bundle], None],
        on_error: Callable[[BaseException], None],
        drawn: Callable[[Result, Summary | None], None] = lambda result, summary: None,
    ):
        self._put, self._on_error, self._drawn = put, on_error, drawn
        self._filled: set[str] = set()
        self._next: Result | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="labkit-drawer", daemon=True)
        self._thread.start()

    def draw(self, result: Result) -> None:
        """Draw this when there is time; returns at once."""
        with self._changed:
            self._next = result
            self._changed.notify_all()

    def close(self) -> None:
        """End after what is being drawn."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(10)

    def _serve(self) -> None:
        next_s = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None or self._closed)
                if not self._closed and (left_s := next_s - monotonic()) > 0:
                    self._changed.wait_for(lambda: self._closed, left_s)
                if self._closed and self._next is None:
                    return
                result, self._next = self._next, None
            next_s = monotonic() + PERIOD_S
            if result is not None:
                self._draw(result)

    def _draw(self, result: Result) -> None:
        try:
            filled = set()
            runs = runs_of(result)
            for slot, bundle in page(result, runs):
                self._put(slot, bundle)
                filled.add(slot)
            ended = result.run is not None or result.part is None
            for slot in SLOTS:
                if slot in self._filled and slot not in filled and (ended or slot in ("guess", "side by side")):
                    self._put(slot, EMPTY)
                    self._filled.discard(slot)
            self._filled |= filled
            self._drawn(result, runs[-1].summary if runs else None)
        except Exception as error:  # a figure that cannot be drawn must not end the panel
            self._on_error(error)
