"""Steps end at their budget or at a Stop, on any clock; a toggle acts on the next step and is told once."""

from itertools import islice
from typing import Any

import pytest

from labkit.errors import ExperimentError
from labkit.schedule import Budget, Step, Steps

S = 1_000_000_000


class Clock:
    """A device clock that the test moves."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


def run(steps: Steps, clock: Clock, step_ns: int) -> list[int]:
    """The indices of the steps, each of which takes `step_ns`."""
    indices = []
    for step in steps:
        indices.append(step.index)
        clock.ns += step_ns
    return indices


# ---- budgets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a run needs a budget: give steps or seconds"),
        ({"steps": 0}, "steps=0 is out of range: 1 to 1,000,000,000 are allowed"),
        ({"steps": -3}, "steps=-3 is out of range"),
        ({"steps": 10**9 + 1}, "steps=1000000001 is out of range"),
        ({"seconds": 0}, "seconds=0 is out of range: more than 0, at most 86400"),
        ({"seconds": -1.5}, "seconds=-1.5 is out of range"),
        ({"seconds": 86_400.5}, "seconds=86400.5 is out of range"),
        ({"seconds": float("nan")}, "seconds=nan is out of range"),
        ({"seconds": float("inf")}, "seconds=inf is out of range"),
        ({"steps": 5, "seconds": 0}, "seconds=0 is out of range"),
        ({"seconds": "3"}, "seconds='3' is not allowed; allowed: a number"),
        ({"steps": 2.5}, "steps=2.5 is not allowed; allowed: a whole number"),
        ({"steps": True}, "steps=True is not allowed; allowed: a whole number"),
        ({"steps": 5, "warmup": -1}, "warmup=-1 is out of range: 0 to 1,000,000 steps are allowed"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(given: dict[str, Any], message: str):
    with pytest.raises(ExperimentError) as refusal:
        Budget(**given)
    assert message in str(refusal.value)


def test_the_limits_themselves_are_budgets():
    assert Budget(steps=1, warmup=0).steps == 1
    assert Budget(steps=10**9).warmup == 8
    assert Budget(seconds=86_400).seconds == 86_400


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (5, 0), (5, 8), (1, 3)])
def test_a_budget_in_steps_comes_after_the_warm_up(steps: int, warmup: int):
    clock = Clock()
    assert run(Steps(None, Budget(steps=steps, warmup=warmup), clock), clock, S) == list(range(warmup + steps))


def test_a_budget_in_seconds_is_device_time_after_the_warm_up():
    clock = Clock()
    steps = Steps(None, Budget(seconds=2.0, warmup=3), clock)
    assert run(steps, clock, S // 4) == list(range(3 + 8))
    assert steps.measure_from_ns == 3 * S // 4


def test_a_slow_warm_up_takes_nothing_from_the_budget():
    clock = Clock()
    steps = Steps(None, Budget(seconds=1.0, warmup=2), clock)
    for step in steps:
        clock.ns += 60 * S if step.index < 2 else S // 2
    assert steps.released == 2 + 2
    assert steps.measure_from_ns == 120 * S


def test_a_budget_in_seconds_ends_at_its_instant_and_not_before():
    clock = Clock()
    assert len(run(Steps(None, Budget(seconds=1.0, warmup=0), clock), clock, S // 10)) == 10
    clock = Clock()
    assert len(run(Steps(None, Budget(seconds=1.0, warmup=0), clock), clock, S // 10 - 1)) == 11


def test_at_least_two_steps_are_measured_however_long_one_takes():
    clock = Clock()
    assert run(Steps(None, Budget(seconds=0.001, warmup=1), clock), clock, 60 * S) == [0, 1, 2]


@pytest.mark.parametrize(("given", "released"), [({"steps": 4, "seconds": 100}, 4), ({"steps": 100, "seconds": 4}, 4)])
def test_of_two_budgets_the_one_that_ends_first_counts(given: dict[str, Any], released: int):
    clock = Clock()
    assert len(run(Steps(None, Budget(**given, warmup=0), clock), clock, S)) == released


def test_before_the_warm_up_is_over_nothing_is_measured():
    steps = Steps(None, Budget(steps=5, warmup=2), Clock())
    seen = [(step.index, steps.measure_from_ns) for step in islice(steps, 3)]
    assert seen == [(0, -1), (1, -1), (2, 0)]


# ---- stop ----------------------------------------------------------------------------------------------------


def test_stop_ends_the_steps_before_the_next_one():
    clock, stopped = Clock(), []
    steps = Steps(None, Budget(steps=100), clock, stopped=lambda: bool(stopped))
    for step in steps:
        if step.index == 5:
            stopped.append(True)
    assert steps.released == 6


def test_a_run_that_is_stopped_before_it_starts_has_no_step():
    steps = Steps(None, Budget(steps=100), Clock(), stopped=lambda: True)
    assert list(steps) == []
    assert (steps.released, steps.measure_from_ns) == (0, -1)


# ---- toggles -------------------------------------------------------------------------------------------------


def test_a_toggle_acts_on_the_next_step_and_is_told_once():
    turned = {3: "b", 5: "c"}
    told: list[tuple[int, str, str]] = []
    steps = Steps("a", Budget(steps=7, warmup=0), Clock(), changes=lambda: turned.get(steps.released),
                  on_change=lambda index, old, new: told.append((index, old, new)))  # fmt: skip
    assert list(steps) == [Step(index, knobs) for index, knobs in enumerate("aaabbcc")]
    assert told == [(3, "a", "b"), (5, "b", "c")]
    assert steps.knobs == "c"


def test_the_change_is_told_before_the_step_that_carries_it():
    order: list[Any] = []
    steps = Steps("a", Budget(steps=2, warmup=0), Clock(), changes=lambda: "b" if steps.released == 1 else None,
                  on_change=lambda index, old, new: order.append(("change", index)))  # fmt: skip
    for step in steps:
        order.append(("step", step.index))
    assert order == [("step", 0), ("change", 1), ("step", 1)]


def test_knobs_turned_to_what_they_are_is_no_change():
    told = []
    steps = Steps("a", Budget(steps=3, warmup=0), Clock(), changes=lambda: "a", on_change=lambda *change: told.append(change))
    assert [step.knobs for step in steps] == ["a", "a", "a"]
    assert told == []


def test_a_toggle_before_the_first_step_acts_on_it():
    steps = Steps("a", Budget(steps=2, warmup=0), Clock(), changes=lambda: "b")
    assert [step.knobs for step in steps] == ["b", "b"]


def test_a_toggle_that_comes_with_the_stop_is_not_taken():
    told = []
    steps = Steps("a", Budget(steps=9), Clock(), stopped=lambda: steps.released == 2,
                  changes=lambda: "b" if steps.released == 2 else None, on_change=lambda *change: told.append(change))  # fmt: skip
    assert len(list(steps)) == 2
    assert told == [] and steps.knobs == "a"


def test_the_pace_may_hold_each_step_back():
    clock, held = Clock(), []
    steps = Steps("a", Budget(steps=3, warmup=0), clock, pace=lambda: held.append(steps.released))
    assert run(steps, clock, S) == [0, 1, 2]
    assert held == [0, 1, 2]


def test_a_stop_while_a_step_is_held_back_ends_the_steps():
    stopped: list[bool] = []
    steps = Steps("a", Budget(steps=100), Clock(), stopped=lambda: bool(stopped), pace=lambda: stopped.append(True))
    assert list(steps) == []


def test_a_toggle_while_a_step_is_held_back_acts_on_it():
    turned: list[str] = []
    steps = Steps("a", Budget(steps=1, warmup=0), Clock(), changes=lambda: turned[-1] if turned else None, pace=lambda: turned.append("b"))
    assert [step.knobs for step in steps] == ["b"]
