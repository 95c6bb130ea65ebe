"""Arrivals: schedules that do not look at the server, and that are what their names say."""

import numpy as np
import pytest
from scipy import stats

from labkit.errors import ExperimentError
from labkit.schedule.arrivals import SHAPES, OpenLoop, Replay

S = 1_000_000_000


def due_s(shape: str, rate: float, seconds: float, seed: int = 0) -> np.ndarray:
    return np.array([request.due_ns for request in OpenLoop(rate, shape, seed).take(round(seconds * S))]) / S


def test_poisson_gaps_are_exponential_and_independent():
    gaps = np.diff(due_s("poisson", 2000, 20))
    assert stats.kstest(gaps * 2000, "expon").pvalue > 0.001
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / len(gaps) ** 0.5


def test_the_test_of_gaps_notices_gaps_that_are_not_exponential():
    assert stats.kstest(np.diff(due_s("bursty", 2000, 20)) * 2000, "expon").pvalue < 0.001


def test_constant_gaps_are_all_the_same_over_the_ends_of_blocks():
    gaps = np.diff([request.due_ns for request in OpenLoop(300_000, "constant").take(S)])
    assert len(gaps) > 2 * 65_536
    assert set(gaps.tolist()) <= {3333, 3334}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_rate_is_the_mean_rate_of_every_shape(shape: str):
    counts = [len(due_s(shape, 100, 400, seed)) for seed in range(8)]
    spread = 0.06 if shape == "bursty" else 0.015  # 200 bursts of random length in 400 s
    assert np.mean(counts) == pytest.approx(100 * 400, rel=spread)


def test_a_step_goes_from_half_the_rate_to_one_and_a_half():
    due = due_s("step", 1000, 10)
    assert (due < 5).sum() == pytest.approx(2500, rel=0.1)
    assert (due >= 5).sum() == pytest.approx(7500, rel=0.06)


def test_a_ramp_rises_within_ten_seconds():
    counts, _ = np.histogram(due_s("ramp", 1000, 10), bins=5, range=(0, 10))
    assert counts.tolist() == pytest.approx([720, 1360, 2000, 2640, 3280], rel=0.12)


def test_bursts_come_in_turns_with_quiet():
    counts, _ = np.histogram(due_s("bursty", 1000, 200), bins=2000, range=(0, 200))
    assert 0.15 < np.mean(counts > 250) < 0.36, "3.4 times the rate for a quarter of the time"
    assert np.median(counts) == pytest.approx(20, abs=6), "0.2 times the rate for most of it"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seed_gives_the_same_schedule_however_it_is_taken(shape: str):
    at_once = OpenLoop(500, shape, seed=7).take(20 * S)
    little_by_little = OpenLoop(500, shape, seed=7)
    taken = [request for now_ns in range(0, 20 * S + 1, S // 7) for request in little_by_little.take(now_ns)]
    taken += little_by_little.take(20 * S)
    assert taken == at_once
    assert [request.id for request in at_once] == list(range(len(at_once)))
    assert OpenLoop(500, shape, seed=8).take(S) != OpenLoop(500, shape, seed=7).take(S) or shape == "constant"


def test_what_is_due_is_given_once_and_the_next_time_is_known():
    arrivals = OpenLoop(10, "constant")
    assert arrivals.next_ns == S // 10
    assert [request.due_ns for request in arrivals.take(S // 4)] == [S // 10, S // 5]
    assert arrivals.take(S // 4) == []
    assert arrivals.next_ns == 3 * S // 10


def test_a_turn_keeps_what_is_due_already_and_draws_the_rest_anew():
    arrivals = OpenLoop(10, "constant")
    arrivals.turn(S // 5, 1000, "constant")
    assert [request.due_ns for request in arrivals.take(S // 5 + 3_000_000)] == [
        S // 10, S // 5, S // 5 + 1_000_000, S // 5 + 2_000_000, S // 5 + 3_000_000
    ]  # fmt: skip


def test_a_turn_to_what_is_there_changes_nothing():
    arrivals, same = OpenLoop(10, "poisson"), OpenLoop(10, "poisson")
    same.turn(0, 10, "poisson")
    assert same.take(10 * S) == arrivals.take(10 * S)


def test_very_rare_and_very_frequent_requests_come():
    assert OpenLoop(0.01, "poisson", seed=1).next_ns is not None
    assert len(OpenLoop(1_000_000, "poisson").take(S // 10)) == pytest.approx(100_000, rel=0.02)


@pytest.mark.parametrize("rate", [0, -1, 1_000_001, float("inf"), float("nan")])
def test_a_rate_that_cannot_be_is_refused(rate: float):
    with pytest.raises(ExperimentError, match=r"more than 0, at most 1,000,000 requests per second"):
        OpenLoop(rate)


def test_an_unknown_shape_is_answered_with_those_that_there_are():
    with pytest.raises(ExperimentError, match="'wavy' is not a shape of arrivals; there are: constant, poisson, bursty, ramp, step"):
        OpenLoop(1, "wavy")


def test_a_replay_comes_as_it_was_recorded_and_ends():
    arrivals = Replay([5, 5, 9], tenants=[1, 0, 1])
    assert arrivals.take(4) == []
    assert [(request.id, request.due_ns, request.tenant) for request in arrivals.take(5)] == [(0, 5, 1), (1, 5, 0)]
    arrivals.turn(6, 1000.0, "poisson")
    assert arrivals.next_ns == 9
    assert [request.id for request in arrivals.take(1000)] == [2]
    assert arrivals.next_ns is None


@pytest.mark.parametrize(("times", "words"), [([], "empty"), ([3, 2], "number 1 is 2 ns"), ([-1, 2], "number 0 is -1 ns")])
def test_a_schedule_that_cannot_be_replayed_is_refused(times: list[int], words: str):
    with pytest.raises(ExperimentError, match=words):
        Replay(times)
