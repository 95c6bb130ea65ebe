"""The loop does one thing at a time and always comes back to rest, whatever the task does."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from labkit.panel import loop as loop_module
from labkit.panel.loop import Loop

HANG_S = 30.0


class Steering:
    """Workers that only note how they were steered."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stop(self) -> None:
        self.calls.append("stop")

    def cancel(self) -> None:
        self.calls.append("cancel")

    def kill(self) -> None:
        self.calls.append("kill")


class Watched:
    """A loop with what it has told."""

    def __init__(self, **tasks: Callable[["Watched"], None]):
        self.workers = Steering()
        self.phases: list[tuple[str, str]] = []
        self.errors: list[BaseException] = []
        self.idle = threading.Event()
        bound = {name: lambda task=task: task(self) for name, task in tasks.items()}
        self.loop = Loop(bound, self.workers, self._on_phase, self.errors.append)

    def _on_phase(self, phase: str, words: str) -> None:
        self.phases.append((phase, words))
        if phase == "idle":
            self.idle.set()

    def done(self) -> list[str]:
        assert self.idle.wait(HANG_S)
        self.idle.clear()
        return [phase for phase, _ in self.phases]


@pytest.fixture
def watched() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(**tasks: Any) -> Watched:
        made.append(Watched(**tasks))
        return made[-1]

    yield make
    for each in made:
        each.loop.close()


def until_stopped(each: Watched) -> None:
    while not each.loop.stopping:
        each.loop.rest(HANG_S)


def test_a_task_is_done_and_the_loop_rests(watched: Any):
    did = []
    each = watched(run=lambda _: did.append("run"))
    assert each.loop.ask("run")
    assert each.done() == ["starting", "idle"]
    assert did == ["run"]
    assert not each.loop.busy


def test_while_one_thing_is_done_nothing_else_is_taken(watched: Any):
    each = watched(run=until_stopped)
    assert each.loop.ask("run")
    assert not each.loop.ask("run")
    each.loop.stop()
    each.done()
    assert each.loop.ask("run")


def test_what_a_task_raises_is_told_and_the_next_one_works(watched: Any):
    def fail(_: Watched) -> None:
        raise ValueError("broken")

    each = watched(fail=fail, run=lambda _: None)
    each.loop.ask("fail")
    each.done()
    assert [str(error) for error in each.errors] == ["broken"]
    assert each.loop.ask("run")
    each.done()


def test_a_stop_goes_to_the_worker_and_ends_the_task(watched: Any):
    each = watched(run=until_stopped)
    each.loop.ask("run")
    each.loop.stop()
    assert each.done() == ["starting", "stopping", "idle"]
    assert each.workers.calls == ["stop"]


def test_a_second_stop_kills_the_worker(watched: Any):
    release = threading.Event()
    each = watched(run=lambda _: release.wait(HANG_S))
    each.loop.ask("run")
    each.loop.stop()
    each.loop.stop()
    assert each.workers.calls == ["stop", "kill"]
    assert each.phases[-1] == ("stopping", "killing the worker")
    release.set()
    each.done()


def test_a_stop_that_does_not_help_becomes_a_cancel_and_then_a_kill(watched: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop_module, "STOP_GRACE_S", 0.01)
    monkeypatch.setattr(loop_module, "KILL_GRACE_S", 0.01)
    killed = threading.Event()
    each = watched(run=lambda _: killed.wait(HANG_S))
    each.workers.kill = lambda: (each.workers.calls.append("kill"), killed.set())
    each.loop.ask("run")
    each.loop.stop()
    each.done()
    assert each.workers.calls == ["stop", "cancel", "kill"]


def test_a_stop_while_nothing_is_done_does_nothing(watched: Any):
    each = watched(run=lambda _: None)
    each.loop.stop()
    assert (each.phases, each.workers.calls) == ([], [])


def test_a_second_panel_waits_its_turn_and_says_so_and_a_stop_ends_the_waiting(watched: Any):
    entered, started = threading.Event(), threading.Event()
    first, second = watched(run=lambda each: (entered.set(), until_stopped(each))), watched(run=until_stopped)
    first.loop.ask("run")
    assert entered.wait(HANG_S)
    third = watched(run=lambda _: started.set())
    second.loop.ask("run")
    deadline = threading.Event()
    while ("waiting", "waits its turn: another panel is running") not in second.phases:
        assert not deadline.wait(0.01)
    third.loop.ask("run")
    second.loop.stop()
    assert second.done() == ["starting", "waiting", "stopping", "idle"]
    assert not started.is_set()
    first.loop.stop()
    assert started.wait(HANG_S)


def test_closing_ends_what_is_done_and_takes_nothing_more(watched: Any):
    each = watched(run=until_stopped)
    each.loop.ask("run")
    each.loop.close()
    assert not each.loop.ask("run")
    each.loop.close()


def test_the_ultimatum_of_a_stop_is_never_meant_for_what_is_asked_next(watched: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop_module, "STOP_GRACE_S", 0.2)
    monkeypatch.setattr(loop_module, "KILL_GRACE_S", 0.0)
    each = watched(run=until_stopped)

    def slow_stop() -> None:
        each.workers.calls.append("stop")
        assert each.idle.wait(HANG_S), "it comes to rest before the worker has been told"

    each.workers.stop = slow_stop
    each.loop.ask("run")
    each.loop.stop()
    each.done()
    each.loop.ask("run")
    assert not threading.Event().wait(0.6)
    assert each.workers.calls == ["stop"]


def test_a_listener_that_fails_does_not_end_the_loop(watched: Any):
    each = watched(run=lambda _: None)
    heard = each._on_phase
    each.loop._on_phase = lambda phase, words: 1 / 0 if phase == "idle" else heard(phase, words)
    told = threading.Event()
    each.loop._on_error = lambda error: (told.set(), 1 / 0)
    each.loop.ask("run")
    assert told.wait(HANG_S)
    each.loop._on_phase, each.loop._on_error = heard, each.errors.append
    assert each.loop.ask("run")
    each.done()
