"""Arrivals: when requests come, decided without looking at the server. That is an open loop.

A schedule is made beforehand, in blocks, from a seed. A Poisson process of rate 1 is stretched by the rate in force and by the
shape's multiplier, whose mean is 1, so that `rate` is the mean rate of every shape:

    constant   one request every 1 / rate
    poisson    independent exponential gaps
    bursty     Poisson, at 3.4 times the rate for a quarter of the time and at 0.2 times for the rest, in turns of random length
    ramp       Poisson, rising from 0.2 to 1.8 times the rate within 10 s, again and again
    step       Poisson, 5 s at half the rate, 5 s at one and a half times
"""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, get_args

import numpy as np

from labkit.errors import ExperimentError
from labkit.schedule.requests import Request
from labkit.units import NS_PER_S

Shape = Literal["constant", "poisson", "bursty", "ramp", "step"]
SHAPES: tuple[str, ...] = get_args(Shape)

MOST_PER_S = 1_000_000
_BLOCK = 65_536
_ON, _OFF = 3.4, 0.2
_ON_S, _OFF_S = 0.5, 1.5
_RAMP_S, _RAMP_PARTS = 10.0, 100
_STEP_S = 5.0


class Arrivals(Protocol):
    """Where requests come from. `next_ns` is when the next one is due, None after the last."""

    next_ns: int | None

    def take(self, now_ns: int) -> list[Request]:
        """The requests that are due by now, in order, each of them once."""
        ...

    def turn(self, now_ns: int, rate: float, shape: str) -> None:
        """From now on come at this rate, in this shape."""
        ...


class OpenLoop:
    """Arrivals of a shape and a mean rate, without end.

    rate   requests per second, more than 0, at most a million. Raises ExperimentError for others, or an unknown shape.
    seed   the same seed, shape and rate give the same schedule
    """

    def __init__(self, rate: float, shape: str = "poisson", seed: int = 0, tenant: int = 0, start_ns: int = 0):
        self._tenant = tenant
        self._random = np.random.default_rng((seed, tenant))
        self._number = 0
        self._due: list[int] = []
        self._at = 0
        self.next_ns: int | None = None
        self._set_off(start_ns, rate, shape)

    def take(self, now_ns: int) -> list[Request]:
        """The requests that are due by now, in order, each of them once."""
        taken = []
        while self.next_ns is not None and self.next_ns <= now_ns:
            taken.append(Request(self._number, self.next_ns, self._tenant))
            self._number += 1
            self._at += 1
            if self._at == len(self._due):
                self._fill()
            self.next_ns = self._due[self._at]
        return taken

    def turn(self, now_ns: int, rate: float, shape: str) -> None:
        """From now on come at this rate, in this shape; what was due later is drawn anew."""
        if (rate, shape) != (self.rate, self.shape):
            due = [due_ns for due_ns in self._due[self._at :] if due_ns <= now_ns]
            self._set_off(now_ns, rate, shape)
            self._due = due + self._due
            self.next_ns = self._due[0]

    def _set_off(self, now_ns: int, rate: float, shape: str) -> None:
        if not 0 < rate <= MOST_PER_S:
            raise ExperimentError(f"rate={rate:g} is out of range: more than 0, at most {MOST_PER_S:,} requests per second")
        if shape not in SHAPES:
            raise ExperimentError(f"arrivals={shape!r} is not a shape of arrivals; there are: {', '.join(SHAPES)}")
        self.rate, self.shape = rate, shape
        self._parts = _parts(shape, self._random)
        self._part_ns = float(now_ns)
        self._left: tuple[float, float] = (0.0, 1.0)
        self._carry = self._gap()
        self._fill()
        self.next_ns = self._due[0]

    def _gap(self) -> float:
        return 1.0 if self.shape == "constant" else float(self._random.exponential())

    def _fill(self) -> None:
        """The due times of the next part of the shape that has any."""
        self._due, self._at = [], 0
        while not self._due:
            self._due = self._next_block()

    def _next_block(self) -> list[int]:
        seconds, multiplier = self._left if self._left[0] > 0 else next(self._parts)
        per_s = self.rate * multiplier
        length = min(seconds, _BLOCK / per_s)
        self._left = (seconds - length, multiplier)
        expected = per_s * length
        began, self._part_ns = self._part_ns, self._part_ns + length * NS_PER_S
        if self._carry > expected:
            self._carry -= expected
            return []
        marks = [np.array([self._carry])]
        while marks[-1][-1] <= expected:
            marks.append(marks[-1][-1] + np.cumsum(self._gaps(int(expected - marks[-1][-1]) + 16)))
        reached = np.concatenate(marks)
        self._carry = float(reached[reached > expected][0] - expected)
        return (began + reached[reached <= expected] / per_s * NS_PER_S).astype(np.int64).tolist()

    def _gaps(self, count: int) -> np.ndarray:
        return np.ones(count) if self.shape == "constant" else self._random.exponential(size=count)


class Replay:
    """Arrivals at given times, as they were recorded; they end with the last one.

    due_ns   ascending, from 0 on
    tenants  whose each is; all of tenant 0 where not given
    Raises ExperimentError where there are none, or they are not ascending.
    """

    def __init__(self, due_ns: Sequence[int], tenants: Sequence[int] | None = None):
        if not len(due_ns):
            raise ExperimentError("the schedule of arrivals is empty: at least one arrival time is needed")
        ahead = next((place for place in range(1, len(due_ns)) if due_ns[place] < due_ns[place - 1]), None)
        if ahead is not None or due_ns[0] < 0:
            raise ExperimentError(f"arrival times must ascend from 0 on: number {ahead or 0} is {due_ns[ahead or 0]} ns")
        self._due_ns = list(due_ns)
        self._tenants = [0] * len(self._due_ns) if tenants is None else list(tenants)
        self._at = 0
        self.next_ns: int | None = self._due_ns[0]

    def take(self, now_ns: int) -> list[Request]:
        """The requests that are due by now, in order, each of them once."""
        taken = []
        while self.next_ns is not None and self.next_ns <= now_ns:
            taken.append(Request(self._at, self.next_ns, self._tenants[self._at]))
            self._at += 1
            self.next_ns = self._due_ns[self._at] if self._at < len(self._due_ns) else None
        return taken

    def turn(self, now_ns: int, rate: float, shape: str) -> None:
        """A recorded schedule has the rate that it has."""


def _parts(shape: str, random: np.random.Generator) -> Iterator[tuple[float, float]]:
    """Parts of the shape, one after another: how many seconds, and the multiplier of the rate."""
    while True:
        if shape == "bursty":
            yield float(random.exponential(_ON_S)), _ON
            yield float(random.exponential(_OFF_S)), _OFF
        elif shape == "ramp":
            for part in range(_RAMP_PARTS):
                yield _RAMP_S / _RAMP_PARTS, 0.2 + 1.6 * (part + 0.5) / _RAMP_PARTS
        elif shape == "step":
            yield _STEP_S, 0.5
            yield _STEP_S, 1.5
        else:
            yield 1.0, 1.0
