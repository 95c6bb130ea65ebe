"""The spread of step intervals: a pattern of several units in flight is none, noise is one however many there are."""

import numpy as np
import pytest

from labkit.metrics import judge, summarize
from labkit.metrics.spread import spread
from tests.metrics.recorded import completing
from tests.metrics.virtual_runs import pipeline, run


def test_fewer_than_two_intervals_have_no_spread():
    assert spread(np.array([], np.int64), 4) == spread(np.array([7]), 4) == 0.0


def test_it_is_the_interquartile_range_over_the_median():
    assert spread(np.array([40, 100, 160] * 20)) == 1.2


def test_intervals_that_alternate_spread_one_by_one_and_not_in_pairs():
    alternating = np.array([10, 190] * 50)
    assert (spread(alternating, 1), spread(alternating, 2)) == (1.8, 0.0)


def test_a_burst_of_four_is_a_pattern_of_four():
    bursts = np.array([1, 1, 99, 299] * 20)
    assert (spread(bursts, 4), spread(bursts, 2) > 0.5) == (0.0, True)


@pytest.mark.parametrize("in_flight", [1, 2, 4])
def test_noise_spreads_as_much_however_many_steps_are_in_flight(in_flight: int):
    noise = 1000 * np.exp(np.random.default_rng(5).normal(0, 0.6, 4000))
    assert spread(noise, in_flight) == pytest.approx(0.8, abs=0.1)


def test_random_long_steps_are_noise_also_in_pairs():
    assert spread(np.random.default_rng(1).choice([50, 150], 400), 2) > 0.5


def test_a_slow_drift_spreads_no_less_in_sums():
    assert spread(np.linspace(50, 200, 200), 4) == pytest.approx(0.6, abs=0.01)


def test_few_intervals_are_not_summed_up_to_fewer_than_five():
    assert spread(np.array([10, 190] * 4), 2) == 1.8


def test_a_loader_bound_pipeline_of_two_workers_is_not_weak_for_the_pairs_that_it_loads():
    trace = run(lambda device: pipeline(device, 60, prefetch=2, forward=30, update=60), widths={"workers": 2})
    intervals = np.diff(trace["end_ns"][trace["items"] > 0])
    assert spread(intervals) > 0.5
    summary = summarize(trace, warmup_steps=8)
    assert judge(summary, trace, warmup_steps=8).grade == "VALID"


def test_the_same_pipeline_of_two_workers_with_real_noise_is_weak():
    random = np.random.default_rng(3)
    ends = np.cumsum(100_000 * np.exp(random.normal(0, 0.7, 80))).astype(int).tolist()
    trace = completing(ends)
    verdict = judge(summarize(trace, warmup_steps=8), trace, warmup_steps=8)
    assert verdict.grade == "WEAK" and "spread" in verdict.reasons[0]
