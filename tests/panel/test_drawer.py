"""The drawer draws the newest result, never more than one a second, and an error does not end it."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest

from labkit import lab
from labkit.panel import drawer as drawer_module
from labkit.panel.drawer import Drawer
from labkit.panel.page import EMPTY
from labkit.panel.state import Result
from labkit.result import Run

HANG_S = 60.0


class Board:
    """Where a drawer puts its bundles."""

    def __init__(self) -> None:
        self.slots: dict[str, Any] = {}
        self.errors: list[BaseException] = []
        self.drawn: list[tuple[float, Result]] = []
        self.done = threading.Event()
        self.drawer = Drawer(self.slots.__setitem__, self._failed, self._on_drawn)

    def _failed(self, error: BaseException) -> None:
        self.errors.append(error)
        self.done.set()

    def _on_drawn(self, result: Result, summary: Any) -> None:
        self.drawn.append((monotonic(), result))
        self.done.set()

    def wait(self) -> None:
        assert self.done.wait(HANG_S)
        self.done.clear()


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board()
    yield made
    made.drawer.close()


@pytest.fixture(scope="module")
def run() -> Run:
    return lab.predict("pipeline", on="t4", steps=40, image_size=32, batch_size=4)


def test_a_result_fills_the_slots(board: Board, run: Run):
    board.drawer.draw(Result(run=run, b=run.shown("B")))
    board.wait()
    assert "words" in board.slots
    assert "timeline" in board.slots


def test_of_many_results_only_the_newest_is_drawn(board: Board, run: Run):
    results = [Result(run=run, b=run.shown(f"B{number}")) for number in range(20)]
    for result in results:
        board.drawer.draw(result)
    while not board.drawn or board.drawn[-1][1] is not results[-1]:
        board.wait()
    assert len(board.drawn) <= 2


def test_between_two_drawings_a_second_passes(board: Board, run: Run, monkeypatch: pytest.MonkeyPatch):
    begun: list[float] = []
    page = drawer_module.page
    monkeypatch.setattr(drawer_module, "page", lambda *given: (begun.append(monotonic()), page(*given))[1])
    for _ in range(3):
        board.drawer.draw(Result(run=run, b=run.shown("B")))
        board.wait()
    assert all(later - earlier >= drawer_module.PERIOD_S for earlier, later in pairwise(begun))


def test_a_slot_that_a_later_result_does_not_fill_is_emptied(board: Board, run: Run):
    from labkit.figures.guess import Guess

    board.drawer.draw(Result(run=run, b=run.shown("B"), guess=Guess(1.5, None)))
    board.wait()
    assert board.slots["guess"] != EMPTY
    board.drawer.draw(Result(run=run, b=run.shown("B")))
    board.wait()
    assert board.slots["guess"] == EMPTY


def test_a_figure_that_fails_is_told_and_the_next_result_is_drawn(board: Board, run: Run, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(drawer_module, "page", lambda *given: 1 / 0)
        board.drawer.draw(Result(run=run, b=run.shown("B")))
        board.wait()
    assert isinstance(board.errors[0], ZeroDivisionError)
    board.drawer.draw(Result(run=run, b=run.shown("B")))
    board.wait()
    assert "words" in board.slots


def test_closing_ends_the_thread(run: Run):
    board = Board()
    board.drawer.draw(Result(run=run, b=run.shown("B")))
    board.drawer.close()
    assert not board.drawer._thread.is_alive()
    assert "words" in board.slots, "what was asked for before is drawn"
