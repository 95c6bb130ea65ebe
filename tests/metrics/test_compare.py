"""B against A in paired rounds: the interval, and a sentence that says no more than it shows."""

import numpy as np
import pytest

from labkit.metrics import Ratio, ratio_interval, sentence


def test_the_interval_is_students_t_on_the_logarithms_of_the_ratios() -> None:
    ratio = ratio_interval([1, 1, 1], [1.1, 1.2, 1.3])
    logs = np.log([1.1, 1.2, 1.3])
    half = 4.302653 * logs.std(ddof=1) / np.sqrt(3)
    assert ratio.value == pytest.approx((1.1 * 1.2 * 1.3) ** (1 / 3))
    assert ratio.low == pytest.approx(np.exp(logs.mean() - half), rel=1e-6)
    assert ratio.high == pytest.approx(np.exp(logs.mean() + half), rel=1e-6)
    assert ratio.n == 3


def test_rounds_are_paired_so_that_what_both_saw_cancels() -> None:
    ratio = ratio_interval([10, 20, 40], [15, 30, 60])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.5, 1.5, 1.5))


def test_swapping_a_and_b_turns_the_ratio_over() -> None:
    a, b = [10, 11, 9.5, 10.2], [13, 15, 14, 13.3]
    there, back = ratio_interval(a, b), ratio_interval(b, a)
    assert (there.value, there.low, there.high) == pytest.approx(
        (1 / back.value, 1 / back.high, 1 / back.low)
    )


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([], [], "an interval needs 2 rounds of each side or more; there are 0"),
        ([1], [2], "an interval needs 2 rounds of each side or more; there is 1"),
        ([1, 2, 3], [1, 2], "A has 3 rounds and B has 2: rounds are compared in pairs"),
        ([1, 0], [1, 2], "a ratio needs finite values above 0; got 0"),
        ([1, 2], [1, float("nan")], "a ratio needs finite values above 0; got nan"),
    ],
)
def test_what_cannot_be_compared_says_why(a: list[float], b: list[float], reason: str) -> None:
    ratio = ratio_interval(a, b)
    assert (ratio.value, ratio.low, ratio.high, ratio.reason) == (None, None, None, reason)
    assert sentence(ratio) == f"no comparison: {reason}"


@pytest.mark.parametrize(
    ("ratio", "better", "words"),
    [
        (Ratio(1.43, 1.38, 1.49, 9), "higher", "faster by 1.43× (1.38 to 1.49)"),
        (Ratio(1.43, 1.38, 1.49, 9), "lower", "slower by 1.43× (1.38 to 1.49)"),
        (Ratio(0.5, 0.4, 0.625, 9), "higher", "slower by 2.00× (1.60 to 2.50)"),
        (Ratio(0.5, 0.4, 0.625, 9), "lower", "faster by 2.00× (1.60 to 2.50)"),
        (Ratio(1.0, 0.98, 1.03, 9), "higher", "no difference shown (0.98 to 1.03)"),
        (Ratio(1.003, 1.002, 1.004, 9), "higher", "faster by 1.0030× (1.0020 to 1.0040)"),
        (Ratio(1.0, 1.0, 1.0, 9), "higher", "no difference shown (1.00 to 1.00)"),
    ],
)
def test_the_sentence_knows_which_way_is_better(ratio: Ratio, better: str, words: str) -> None:
    assert sentence(ratio, better) == words


def test_other_quantities_have_other_words() -> None:
    assert (
        sentence(Ratio(0.8, 0.7, 0.9, 5), "lower", ("cheaper", "dearer")) == "cheaper by 1.25× (1.11 to 1.43)"
    )


def rounds(random: np.random.Generator, speed: float = 1.0) -> np.ndarray:
    return 1000 * speed * random.lognormal(0, 0.05, 8)


def test_a_against_a_shows_no_difference_19_times_in_20() -> None:
    random = np.random.default_rng(20_261_130)
    said = [sentence(ratio_interval(rounds(random), rounds(random))) for _ in range(2000)]
    silent = sum(words.startswith("no difference shown") for words in said) / len(said)
    assert 0.94 <= silent <= 0.96


def test_twenty_percent_is_found() -> None:
    random = np.random.default_rng(20_261_130)
    said = [sentence(ratio_interval(rounds(random), rounds(random, 1.2))) for _ in range(500)]
    assert sum(words.startswith("faster by") for words in said) >= 499
