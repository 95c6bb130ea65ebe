"""Measuring until the interval is narrow: few false alarms, effects found, the truth inside, and an end in any case."""

import numpy as np
import pytest

from labkit.errors import ExperimentError
from labkit.metrics.compare import Ratio, ratio_interval, sentence, smallest_effect
from labkit.metrics.sequential import CONFIDENCE, LOOKS, Precision, is_narrow, narrow_enough
from tests.metrics.noise import MODELS, Noise

COMPARISONS, MOST = 400, 40
PRECISION = Precision(0.05)


def compared(noise: Noise, truth: float, seed: int) -> Ratio:
    """One comparison of rates, B being `truth` times as fast, as the runner makes it."""
    chance = np.random.default_rng(seed)
    a: list[float] = []
    b: list[float] = []
    while len(a) < MOST and not narrow_enough(a, b, PRECISION):
        slow_a, slow_b = noise(chance, len(a))
        a.append(1000 / slow_a)
        b.append(1000 * truth / slow_b)
    return ratio_interval(a, b, CONFIDENCE)


@pytest.mark.parametrize("noise", MODELS.values(), ids=MODELS)
def test_the_same_against_itself_shows_no_difference_in_95_of_100(noise: Noise):
    said = [sentence(compared(noise, 1.0, seed)) for seed in range(COMPARISONS)]
    assert sum(words.startswith("no difference shown") for words in said) >= 0.95 * COMPARISONS


@pytest.mark.parametrize("noise", MODELS.values(), ids=MODELS)
def test_a_fifth_more_is_found_in_95_of_100_and_the_truth_is_inside_in_90(noise: Noise):
    found = [compared(noise, 1.2, seed) for seed in range(COMPARISONS)]
    assert sum(sentence(ratio).startswith("faster by") for ratio in found) >= 0.95 * COMPARISONS
    inside = sum(ratio.low <= 1.2 * (1 + 1e-9) and ratio.high >= 1.2 * (1 - 1e-9) for ratio in found) / COMPARISONS
    assert inside == 1.0 if noise is MODELS["constant"] else 0.90 <= inside <= 0.99


def test_an_interval_is_looked_at_a_few_times_only():
    assert not any(narrow_enough([1.0] * n, [1.0] * n, PRECISION) for n in range(LOOKS[-1]) if n not in LOOKS)
    assert narrow_enough([1.0] * 5, [1.0] * 5, PRECISION)


@pytest.mark.parametrize(
    ("low", "high", "narrow"), [(0.953, 1.05, True), (0.95, 1.05, False), (0.96, 1.051, False), (None, None, False)]
)
def test_narrow_is_the_share_to_either_side(low: float | None, high: float | None, narrow: bool):
    assert is_narrow(Ratio(None if low is None else 1.0, low, high, 9), PRECISION) is narrow


def test_the_smallest_effect_is_shown_by_four_of_five_comparisons():
    chance = np.random.default_rng(3)
    n, spread = 12, 0.05
    effect = smallest_effect(spread / np.sqrt(n), n)
    logs = chance.normal(np.log1p(effect), spread, (4000, n))
    half = 2.2009852 * logs.std(axis=1, ddof=1) / np.sqrt(n)
    assert np.mean(logs.mean(axis=1) - half > 0) == pytest.approx(0.8, abs=0.03)


def test_where_no_difference_is_shown_the_smallest_effect_is_told():
    ratio = ratio_interval([100, 102, 99, 101, 100], [101, 100, 100, 99, 102])
    assert 0.01 < ratio.detectable < 0.05
    assert sentence(ratio).endswith(f"; an effect under {100 * ratio.detectable:.1f} % could not have been seen here")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"share": 0}, "precision=0 is out of range: 0.001 to 1 are allowed"),
        ({"share": float("nan")}, "precision=nan is out of range"),
        ({"budget_s": 0}, "budget_s=0 is out of range"),
        ({"budget_s": float("inf")}, "budget_s=inf is out of range"),
    ],
)
def test_a_precision_that_makes_no_sense_is_refused(given: dict[str, float], says: str):
    with pytest.raises(ExperimentError) as refusal:
        Precision(**given)
    assert says in str(refusal.value)
