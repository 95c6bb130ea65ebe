"""A promise of latency, `p99:50ms`, whether a run kept it, and the search for the highest rate that does.

Kept is a promise when at least that share of all requests that were due got their answer in time; one that was turned away did not.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from labkit.errors import ExperimentError
from labkit.metrics.percentiles import percentile_name, samples_needed
from labkit.metrics.requests import Counted
from labkit.metrics.verdict import Verdict
from labkit.schedule import Answer
from labkit.units import NS_PER_MS, NS_PER_S, NS_PER_US, format_time

_FORM = re.compile(r"\s*p(?P<percent>\d{1,2}(\.\d+)?)\s*:\s*(?P<limit>\d+(\.\d*)?|\.\d+)\s*(?P<unit>us|µs|ms|s)\s*")
_UNITS = {"us": NS_PER_US, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}

FACTOR = 2.0
LOWEST, HIGHEST = 0.01, 1_000_000.0
CONFIRMATIONS = 2
STEPS_DOWN = 4


@dataclass(frozen=True)
class Promise:
    """At least the share `q` of all requests gets its answer within `limit_ns`."""

    q: float
    limit_ns: int

    @property
    def words(self) -> str:
        """`p99 ≤ 50 ms`."""
        return f"{percentile_name(self.q)} ≤ {format_time(self.limit_ns)}"

    @property
    def needed(self) -> int:
        """How many requests it takes to tell."""
        return 5 * samples_needed(self.q)


@dataclass(frozen=True)
class Trial:
    """What came of one rate.

    rate     asked for; offered: what came, both in requests per second
    n        requests that count; within: how many of them kept the promise
    kept     the promise was kept; None: too few requests to tell
    latency_ns  at the promise's percentile, requests without an answer counted as infinitely late; None where that is where it lies
    median_ns   of those served
    served_per_s  throughput
    reason   why it cannot be told, or why the run failed
    doubts   what makes the run that it was WEAK or INVALID; () for a sound one, and for a prediction
    """

    rate: float
    offered: float
    n: int
    within: int
    kept: bool | None
    latency_ns: float | None
    median_ns: float | None
    served_per_s: float
    reason: str = ""
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Peak:
    """The highest rate that keeps a promise, as far as the trials tell.

    rate    None where no rate that was tried keeps it
    broken  the lowest rate that was seen to break it; None where none did
    """

    promise: Promise
    rate: float | None
    broken: float | None
    trials: tuple[Trial, ...]
    verdict: Verdict


def read_promise(text: str) -> Promise:
    """`p99:50ms`, `p99.9:1s`, `p50:200us`. Raises ExperimentError for other forms."""
    match = _FORM.fullmatch(text)
    q = float(match["percent"]) / 100 if match else 0.0
    limit_ns = round(float(match["limit"]) * _UNITS[match["unit"]]) if match else 0
    if not 0 < q < 1 or limit_ns < 1:
        raise ExperimentError(f"slo {text!r} is not a promise; give a percentile and a latency: 'p99:50ms', 'p99.9:1s', 'p50:200us'")
    return Promise(round(q, 10), limit_ns)


def judge_trial(promise: Promise, rate: float, counted: Counted) -> Trial:
    """Whether the requests of one run kept the promise."""
    columns = counted.columns
    served = columns["answer"] == Answer.SERVED
    latency_ns = np.where(served, (columns["done_ns"] - columns["due_ns"]).astype(float), np.inf)
    n, within = len(latency_ns), int((latency_ns <= promise.limit_ns).sum())
    seconds = counted.span_ns / NS_PER_S
    if n < promise.needed or seconds <= 0:
        reason = f"{n} requests are too few to tell: {promise.needed} are needed"
        return Trial(rate, 0.0, n, within, None, None, None, 0.0, reason)
    at = float(np.quantile(latency_ns, promise.q, method="higher"))
    median = float(np.median(latency_ns[served])) if served.any() else None
    kept = within >= promise.q * n
    return Trial(rate, n / seconds, n, within, kept, at if np.isfinite(at) else None, median, int(served.sum()) / seconds)


def find_peak(
    promise: Promise, try_at: Callable[[float, int], Trial], first: float, precision: float = 0.05, measured: bool = True
) -> Peak:
    """Search for the highest rate: doubled or halved until it lies between two, then halved in between, then confirmed.

    try_at     (rate, number of the trial) → what came of it
    precision  how far the rate that breaks it may lie above the one that keeps it: 0.05 is 5 %
    Raises ExperimentError for a precision that is not between 0.1 % and 100 %.
    """
    if not 0.001 <= precision <= 1:
        raise ExperimentError(f"precision={precision:g} is out of range: 0.001 (0.1 %) to 1 (100 %) are allowed")
    return _Search(promise, try_at, precision, measured).find(first)


class _Search:
    def __init__(self, promise: Promise, try_at: Callable[[float, int], Trial], precision: float, measured: bool):
        self._promise, self._try_at, self._precision, self._measured = promise, try_at, precision, measured
        self._trials: list[Trial] = []
        self._kept: float | None = None
        self._broken: float | None = None

    def find(self, first: float) -> Peak:
        rate = first
        while (self._kept is None or self._broken is None) and LOWEST <= rate <= HIGHEST:
            if not self._tried(rate):
                return self._ended("INVALID", self._trials[-1].reason)
            rate = rate * FACTOR if self._broken is None else rate / FACTOR
        if self._kept is None:
            return self._ended("INVALID", f"{self._promise.words} is kept at no rate from {LOWEST:g} requests/s on")
        if self._broken is None:
            return self._ended("WEAK", f"{self._promise.words} is still kept at {self._kept:g} requests/s, the highest rate there is")
        while self._broken > self._kept * (1 + self._precision):
            if not self._tried((self._kept * self._broken) ** 0.5):
                return self._ended("WEAK", self._trials[-1].reason)
        return self._confirmed()

    def _tried(self, rate: float) -> bool:
        """Try a rate; False where nothing can be told from it."""
        trial = self._try_at(rate, len(self._trials))
        self._trials.append(trial)
        if trial.kept is None:
            return False
        if trial.kept:
            self._kept = max(rate, self._kept or 0.0)
        else:
            self._broken = min(rate, self._broken or HIGHEST)
        return True

    def _confirmed(self) -> Peak:
        """The rate that was found is tried again with other arrivals; where it breaks the promise, a little less is."""
        rate = self._kept or LOWEST
        for _ in range(STEPS_DOWN):
            again = [self._try_at(rate, len(self._trials) + number) for number in range(CONFIRMATIONS)]
            self._trials += again
            self._kept = rate
            if all(trial.kept for trial in again):
                words = f"{self._promise.words} was kept at {rate:.4g} requests/s in {CONFIRMATIONS + 1} of {CONFIRMATIONS + 1} schedules"
                return self._ended("VALID" if self._measured else "PREDICTED", words)
            self._broken, rate = rate, rate / (1 + self._precision)
        return self._ended("WEAK", f"no rate near {rate:.4g} requests/s keeps {self._promise.words} with every schedule of arrivals")

    def _ended(self, grade: str, reason: str) -> Peak:
        reasons = (reason,) if self._measured else (reason, "simulated: a prediction, not a measurement")
        deciding = [trial for trial in self._trials if trial.rate in (self._kept, self._broken)]
        doubted = [trial for trial in deciding if trial.doubts]
        if self._measured and doubted:
            reasons += (f"{len(doubted)} of the {len(deciding)} trials that decide it are weak: {doubted[0].doubts[0]}",)
            grade = "WEAK" if grade == "VALID" else grade
        if grade != "INVALID" and not self._measured:
            grade = "PREDICTED"
        return Peak(self._promise, self._kept, self._broken, tuple(self._trials), replace(Verdict("VALID", reasons), grade=grade))
