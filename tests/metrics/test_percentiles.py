"""Percentiles are interpolated between samples, and refused where the samples do not reach."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import LabkitError
from labkit.metrics.percentiles import percentile, percentile_name, quantile, samples_needed


@pytest.mark.parametrize(
    ("q", "needed"), [(0.5, 1), (0.25, 4), (0.75, 4), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000)]
)
def test_a_percentile_needs_at_least_one_sample_beyond_it_for_each_that_it_speaks_of(
    q: float, needed: int
) -> None:
    assert samples_needed(q) == needed


@pytest.mark.parametrize("n", [1, 2, 10, 19, 20, 99, 100, 101, 1000])
@pytest.mark.parametrize(("q", "needed"), [(0.5, 1), (0.95, 20), (0.99, 100), (0.999, 1000)])
def test_it_is_there_from_that_many_samples_on_and_not_before(n: int, q: float, needed: int) -> None:
    metric = percentile(np.arange(n), q)
    assert metric.n == n
    assert (metric.value is None) == (n < needed)
    assert (metric.reason is None) == (n >= needed)


def test_the_refusal_says_how_many_are_needed_and_how_many_there_are() -> None:
    assert percentile([1.0, 2.0], 0.99).reason == "p99 needs at least 100 samples; there are 2"
    assert percentile([1.0], 0.95).reason == "p95 needs at least 20 samples; there is 1"
    assert percentile([], 0.5).reason == "p50 needs at least 1 sample; there are 0"


def test_p50_of_one_sample_is_the_sample_and_of_two_lies_halfway() -> None:
    assert percentile([7], 0.5).value == 7
    assert percentile([10, 20], 0.5).value == 15


def test_p99_of_100_samples_is_not_their_maximum() -> None:
    assert percentile(np.arange(100), 0.99).value == pytest.approx(98.01)
    assert percentile(np.arange(101), 0.99).value == 99


def test_samples_need_not_be_in_order() -> None:
    assert percentile([3, 1, 2], 0.5).value == 2


def test_a_sample_that_is_no_number_is_refused_not_ignored() -> None:
    assert (
        percentile([1.0, float("nan"), float("inf")], 0.5).reason == "2 of 3 samples are not finite numbers"
    )


@pytest.mark.parametrize("q", [0, 1, -0.1, 95])
def test_a_percentile_outside_its_range_is_an_error(q: float) -> None:
    with pytest.raises(LabkitError, match="out of range"):
        percentile([1.0], q)


@pytest.mark.parametrize(("q", "name"), [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (0.29, "p29")])
def test_its_name_is_what_people_call_it(q: float, name: str) -> None:
    assert percentile_name(q) == name


@pytest.mark.parametrize("n", [1, 2, 10, 20, 99, 100, 101, 1000])
def test_those_that_are_there_rise_with_q_and_stay_between_minimum_and_maximum(n: int) -> None:
    values = np.random.default_rng(n).lognormal(0, 1, n)
    shares = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
    metrics = {q: percentile(values, q) for q in shares}
    there = [metric.value for metric in metrics.values() if metric.value is not None]
    assert there == sorted(there)
    assert values.min() <= there[0] and there[-1] <= values.max()
    assert [q for q, metric in metrics.items() if metric.value is None] == [q for q in shares if n < samples_needed(q)]


samples = st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=60).map(sorted)


@given(samples, st.floats(0, 1), st.floats(0, 1))
def test_it_never_leaves_the_samples_and_never_falls_as_q_rises(
    ordered: list[float], one: float, other: float
) -> None:
    low, high = (quantile(ordered, q) for q in sorted((one, other)))
    assert ordered[0] <= low <= high <= ordered[-1]


@given(samples, st.floats(0, 1))
def test_it_agrees_with_numpy(ordered: list[float], q: float) -> None:
    assert quantile(ordered, q) == pytest.approx(float(np.quantile(ordered, q)), rel=1e-9, abs=1e-3)
