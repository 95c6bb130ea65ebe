"""Steps: the kernel's source of intent.

A kernel iterates over steps; each carries its index and the knobs in force. A finite run, a live run, a
sweep and a simulated run differ in nothing but their steps: a budget in steps or in device time, a Stop, and
toggles that change the knobs of the steps to come.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

from labkit.errors import ExperimentError
from labkit.units import seconds_to_ns


class Step(NamedTuple):
    """One step of a run: its index from 0, and the knobs in force when it was released."""

    index: int
    knobs: Any


@dataclass(frozen=True)
class Budget:
    """How long a run lasts after its warm-up: `steps`, or `seconds` of device time, whichever ends first.

    warmup  steps at the start that no metric counts
    """

    steps: int | None = None
    seconds: float | None = None
    warmup: int = 8

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise ExperimentError("a run needs a budget: give steps or seconds")
        _check_kind("steps", self.steps, Integral, "a whole number")
        _check_kind("seconds", self.seconds, Real, "a number")
        _check_kind("warmup", self.warmup, Integral, "a whole number")
        if self.steps is not None and (self.steps < 1 or self.steps > 10**9):
            raise ExperimentError(f"steps={self.steps} is out of range: 1 to 1,000,000,000 are allowed")
        if self.seconds is not None and not 0 < self.seconds <= 86_400:
            raise ExperimentError(f"seconds={self.seconds} is out of range: more than 0, at most 86400 (a day)")
        if self.warmup < 0:
            raise ExperimentError(f"warmup={self.warmup} is out of range: 0 or more steps are allowed")


def _check_kind(name: str, value: Any, kind: type, words: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
        raise ExperimentError(f"{name}={value!r} is not allowed; allowed: {words}")


class Steps:
    """An iterator of `Step` that ends at its budget or when `stopped()` says so.

    now        the device's clock (integer ns)
    stopped    asked before each step; true ends the run
    changes    asked before each step for new knobs (None: no change)
    on_change  told (index, old knobs, new knobs) before the first step that carries the new ones
    pace       called before each step; it may hold the program back
    """

    def __init__(
        self,
        knobs: Any,
        budget: Budget,
        now: Callable[[], int],
        stopped: Callable[[], bool] = lambda: False,
        changes: Callable[[], Any] = lambda: None,
        on_change: Callable[[int, Any, Any], None] = lambda index, old, new: None,
        pace: Callable[[], None] = lambda: None,
    ):
        self.knobs = knobs
        self.budget = budget
        self.released = 0
        self.measure_from_ns = -1
        self._now, self._stopped, self._changes, self._on_change = now, stopped, changes, on_change
        self._pace = pace

    def __iter__(self) -> Iterator[Step]:
        limit = self.budget.warmup + (self.budget.steps or 10**18)
        span_ns = None if self.budget.seconds is None else seconds_to_ns(self.budget.seconds)
        while self.released < limit and not self._stopped():
            if self.released == self.budget.warmup:
                self.measure_from_ns = self._now()
            if span_ns is not None and self._measured_steps() > 1 and self._measured_ns() >= span_ns:
                return
            self._pace()
            if self._stopped():  # while it was held back
                return
            self._take_changes()
            yield Step(self.released, self.knobs)
            self.released += 1

    def _measured_steps(self) -> int:
        return self.released - self.budget.warmup

    def _measured_ns(self) -> int:
        return self._now() - self.measure_from_ns

    def _take_changes(self) -> None:
        new = self._changes()
        if new is not None and new != self.knobs:
            self._on_change(self.released, self.knobs, new)
            self.knobs = new
