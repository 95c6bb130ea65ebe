"""Promises of latency: how they are read, when they are kept, and the highest rate that keeps them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from labkit.errors import ExperimentError
from labkit.metrics.promise import HIGHEST, LOWEST, Promise, Trial, find_peak, judge_trial, read_promise
from labkit.metrics.requests import Counted
from labkit.schedule import Answer
from labkit.trace.trace import no_requests

MS = 1_000_000
P99 = Promise(0.99, 50 * MS)


@pytest.mark.parametrize(
    ("text", "promise"),
    [
        ("p99:50ms", P99),
        (" p99 : 50 ms ", P99),
        ("p99.9:1s", Promise(0.999, 1000 * MS)),
        ("p50:200us", Promise(0.5, 200_000)),
        ("p95:.5ms", Promise(0.95, 500_000)),
        ("p95:1.5µs", Promise(0.95, 1_500)),
    ],
)
def test_a_promise_is_read(text: str, promise: Promise):
    assert read_promise(text) == promise


@pytest.mark.parametrize("text", ["", "p99", "99:50ms", "p99:50", "p100:1s", "p0:1s", "p99:0ms", "p99:-1ms", "p99:50 minutes", "p99:infms"])
def test_what_is_no_promise_is_refused_with_examples(text: str):
    with pytest.raises(ExperimentError, match="'p99:50ms'"):
        read_promise(text)


def counted(latency_ms: list[float], turned_away: int = 0, seconds: float = 10.0) -> Counted:
    columns = {name: np.zeros(len(latency_ms) + turned_away, np.int64) for name in no_requests()}
    columns["done_ns"][: len(latency_ms)] = np.array(latency_ms) * MS
    columns["answer"][len(latency_ms) :] = Answer.REJECTED
    return Counted(columns, round(seconds * 1e9), {0: len(latency_ms)})


def test_it_is_kept_when_that_share_of_all_requests_was_in_time():
    at_the_limit = judge_trial(P99, 100, counted([50.0] * 990 + [51.0] * 10))
    assert at_the_limit.kept is True
    assert at_the_limit.latency_ns == 51 * MS, "numpy's 'higher': the first sample that is not in the lower 99 %"
    assert judge_trial(P99, 100, counted([50.0] * 989 + [51.0] * 11)).kept is False


def test_a_request_that_was_turned_away_was_not_in_time():
    trial = judge_trial(P99, 100, counted([1.0] * 980, turned_away=20))
    assert trial.kept is False
    assert trial.latency_ns is None, "at p99 lies a request without an answer"
    assert (trial.n, trial.within) == (1000, 980)
    assert (trial.offered, trial.served_per_s) == (100, 98)


def test_too_few_requests_tell_nothing():
    trial = judge_trial(P99, 100, counted([1.0] * 499))
    assert trial.kept is None
    assert trial.reason == "499 requests are too few to tell: 500 are needed"


# ---- the search ----------------------------------------------------------------------------------------------


class Server:
    """Keeps the promise up to a capacity, of which every trial draws its own. Remembers what was tried."""

    def __init__(self, capacity: float, spread: float = 0.0, seed: int = 0):
        self.capacity, self.spread, self.random, self.tried = capacity, spread, np.random.default_rng(seed), []

    def __call__(self, rate: float, number: int) -> Trial:
        self.tried.append(rate)
        kept = rate <= self.capacity * (1 + self.spread * self.random.standard_normal())
        return Trial(rate, rate, 1000, 1000 if kept else 0, kept, MS, MS, rate)


@pytest.mark.parametrize("first", [0.5, 50, 333.3, 5000])
@pytest.mark.parametrize("precision", [0.01, 0.05, 0.5])
def test_the_peak_is_found_to_its_precision_wherever_the_search_begins(first: float, precision: float):
    found = find_peak(P99, Server(333.3), first, precision)
    assert found.rate <= 333.3 < found.broken <= found.rate * (1 + precision)
    assert found.verdict.grade == "VALID"
    assert "in 3 of 3 schedules" in found.verdict.reasons[0]


def test_the_number_of_trials_grows_with_the_logarithm_of_what_is_to_be_found():
    server = Server(333.3)
    find_peak(P99, server, 50, 0.05)
    assert len(server.tried) <= math.ceil(math.log2(333.3 / 50)) + 1 + math.ceil(math.log2(math.log(2) / math.log(1.05))) + 2


def test_a_rate_that_other_arrivals_break_is_not_the_peak():
    answers = iter([True, False, True, *[True] * 3, False, True, True, True, True])

    def server(rate: float, number: int) -> Trial:
        return Trial(rate, rate, 1000, 1000, next(answers), MS, MS, rate)

    found = find_peak(P99, server, 100, 0.06)
    assert found.verdict.grade == "VALID"
    assert found.rate < max(trial.rate for trial in found.trials if trial.kept)


def test_a_server_of_moods_ends_and_what_it_says_is_below_what_broke():
    for seed in range(20):
        found = find_peak(P99, Server(100, spread=0.2, seed=seed), 10, 0.02)
        assert found.rate is not None
        assert len(found.trials) < 60
        assert found.verdict.grade in ("VALID", "WEAK")


def test_nothing_keeps_it_or_everything_does():
    never, always = find_peak(P99, Server(0), 1), find_peak(P99, Server(1e9), 1)
    assert never.rate is None and never.verdict.grade == "INVALID"
    assert f"from {LOWEST:g} requests/s on" in never.verdict.reasons[0]
    assert always.broken is None and always.verdict.grade == "WEAK"
    assert always.rate is not None and always.rate <= HIGHEST


def test_where_nothing_can_be_told_the_search_ends_and_says_so():
    found = find_peak(P99, lambda rate, number: judge_trial(P99, rate, counted([1.0] * 3)), 10)
    assert found.verdict.grade == "INVALID"
    assert "too few to tell" in found.verdict.reasons[0]
    assert len(found.trials) == 1


def test_a_simulation_predicts():
    found = find_peak(P99, Server(100), 10, measured=False)
    assert found.verdict.grade == "PREDICTED"


@pytest.mark.parametrize("precision", [0, -1, 1.5, float("nan")])
def test_a_precision_that_cannot_be_is_refused(precision: float):
    with pytest.raises(ExperimentError, match=r"0\.001 \(0.1 %\)"):
        find_peak(P99, Server(100), 10, precision)


def test_a_peak_is_no_better_than_the_trials_that_decide_it():
    def trial(rate: float, number: int) -> Trial:
        return Trial(rate, rate, 1000, 1000, rate <= 500, 1e6, 1e6, rate, doubts=("the machine was shared",) if rate > 300 else ())

    doubted = find_peak(read_promise("p99:50ms"), trial, 100.0)
    assert doubted.verdict.grade == "WEAK" and "trials that decide it are weak: the machine was shared" in doubted.verdict.reasons[-1]
    sound = find_peak(read_promise("p99:50ms"), lambda rate, number: replace(trial(rate, number), doubts=()), 100.0)
    assert sound.verdict.grade == "VALID" and sound.rate == doubted.rate
