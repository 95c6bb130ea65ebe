"""Steps: the kernel's source of intent.

A kernel iterates over steps; each carries its index and the knobs in force. A finite run, a live run, a
sweep and a simulated run differ in nothing but their steps: a budget in steps or in device time, a Stop, and
toggles that change the knobs of the steps to come. A kernel that serves requests asks the same object what is due, and takes a
step for each batch that it sends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

from labkit.errors import ContractError, ExperimentError
from labkit.schedule.arrivals import Arrivals
from labkit.schedule.requests import Request
from labkit.units import seconds_to_ns

_FOREVER_NS = 1 << 62


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
        if not 0 <= self.warmup <= 10**6:
            raise ExperimentError(f"warmup={self.warmup} is out of range: 0 to 1,000,000 steps are allowed")


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
    arrivals   where requests come from, for a kernel that serves
    look_ns    how long such a kernel may wait at most before it asks again, so that a Stop or a toggle is seen; None where
               nobody can press anything
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
        arrivals: Arrivals | None = None,
        look_ns: int | None = None,
    ):
        self.knobs = knobs
        self.budget = budget
        self.released = 0
        self.measure_from_ns = -1
        self._now, self._stopped, self._changes, self._on_change = now, stopped, changes, on_change
        self._pace = pace
        self._arrivals = arrivals
        self._look_ns = look_ns
        self._limit = budget.warmup + (budget.steps or 10**18)
        self._span_ns = None if budget.seconds is None else seconds_to_ns(budget.seconds)
        self.next_ns: int | None = None
        self.look_again_ns: int | None = None
        self.stopped = False
        self._closed = False

    def __iter__(self) -> Iterator[Step]:
        while self._goes_on():
            self._begin_measuring()
            if self._time_is_up():
                return
            self._pace()
            if self._stopped():  # while it was held back
                return
            self._take_changes()
            yield Step(self.released, self.knobs)
            self.released += 1

    # ---- for kernels that serve ---------------------------------------------------------------------------

    def due(self, now_ns: int) -> list[Request]:
        """The requests that are due by now, each of them once; none when the run's time is up.

        Afterwards `next_ns` is when the next one is due (None where there will be none), `look_again_ns` is when to ask again at
        the latest (None: only then), and `stopped` is whether somebody wants the run to end now. Raises ContractError where the run has no arrivals.
        """
        self._pace()
        self._take_changes()
        arrivals = self._the_arrivals()
        self.stopped = self._stopped()
        self.next_ns = None
        if self._look_ns is not None:
            self.look_again_ns = now_ns + self._look_ns
        if self.stopped or self._closed or self.released >= self._limit:
            return []
        end_ns = self._end_ns()
        self._closed = now_ns >= end_ns
        taken = arrivals.take(end_ns if self._closed else now_ns)
        if self._closed:
            return taken
        if arrivals.next_ns is not None and arrivals.next_ns <= end_ns:
            self.next_ns = arrivals.next_ns
        return taken

    def release(self) -> Step:
        """The next step, with the knobs that `due` saw; also when the run's time is up: what has come is served."""
        self._begin_measuring()
        step = Step(self.released, self.knobs)
        self.released += 1
        return step

    # ---- inside -------------------------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        return self.released < self._limit and not self._stopped()

    def _begin_measuring(self) -> None:
        if self.released == self.budget.warmup:
            self.measure_from_ns = self._now()

    def _time_is_up(self) -> bool:
        if self._span_ns is None or self.released - self.budget.warmup <= 1:
            return False
        return self._now() - self.measure_from_ns >= self._span_ns

    def _end_ns(self) -> int:
        """When the last request may come. A warm-up that alone takes as long as the run is given ends it: requests may be rare."""
        return _FOREVER_NS if self._span_ns is None else max(self.measure_from_ns, 0) + self._span_ns

    def _the_arrivals(self) -> Arrivals:
        if self._arrivals is None:
            raise ContractError("this run has no arrivals: the experiment must declare them for a kernel that serves")
        return self._arrivals

    def _take_changes(self) -> None:
        new = self._changes()
        if new is not None and new != self.knobs:
            self._on_change(self.released, self.knobs, new)
            self.knobs = new
            if self._arrivals is not None:
                self._arrivals.turn(self._now(), new.rate, new.arrivals)
