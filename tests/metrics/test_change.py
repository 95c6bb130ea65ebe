"""The change since a toggle: exact on constructed steps, silent on nineteen of twenty repetitions of the same thing."""

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from labkit.errors import TraceError
from labkit.metrics.change import Change, Completions, _block_steps, change, change_words

MS = 1_000_000
ITEMS = 32


def steps_of(intervals_ms: Sequence[float], items: int = ITEMS) -> Completions:
    """Steps that end these intervals after one another; the first ends at 1 s."""
    ends = np.concatenate([[0.0], np.cumsum(np.asarray(intervals_ms, float))])
    return Completions((1000 * MS + ends * MS).astype(np.int64), np.full(len(ends), items))


def noisy(random: np.random.Generator, n: int, mean_ms: float = 10, spread: float = 0.1, turns: Sequence[float] = (1,)):
    return steps_of(mean_ms * random.lognormal(0, spread, n - 1) * np.resize(turns, n - 1))


def share_shown(random: np.random.Generator, runs: int, turns: Sequence[float] = (1,), faster: float = 1.0) -> float:
    found = []
    for _ in range(runs):
        before, after = (int(n) for n in random.integers(20, 300, 2))
        found.append(change(noisy(random, before, turns=turns), noisy(random, after, 10 / faster, turns=turns)).shown)
    return float(np.mean(found))


def test_steps_of_equal_length_give_the_ratio_exactly() -> None:
    found = change(steps_of([10] * 30), steps_of([8] * 30))
    assert (found.ratio, found.low, found.high) == pytest.approx((1.25, 1.25, 1.25), rel=1e-12)
    assert (found.before_per_s, found.after_per_s) == (3200.0, 4000.0)
    assert (found.before, found.after, found.reason) == (31, 31, None)


def test_the_interval_is_welchs_t_on_the_logarithms_of_the_block_rates() -> None:
    """Twenty steps: five blocks of four. The blocks take 40, 44, 36, 40, 40 ms and then 30, 30, 30, 33, 27."""
    before = steps_of(np.repeat([10, 11, 9, 10, 10], 4))
    after = steps_of(np.repeat([7.5, 7.5, 7.5, 8.25, 6.75], 4))
    logs = -np.log([40, 44, 36, 40, 40]), -np.log([30, 30, 30, 33, 27])
    squares = [each.var(ddof=1) / 5 for each in logs]
    freedom = sum(squares) ** 2 / sum(square**2 / 4 for square in squares)
    assert freedom == pytest.approx(8.0), "the logarithms of both sides spread alike"
    middle, half = logs[1].mean() - logs[0].mean(), 2.306004 * np.sqrt(sum(squares))
    found = change(before, after)
    assert found.ratio == pytest.approx(np.exp(middle), rel=1e-9) == pytest.approx(4 / 3)
    assert (found.low, found.high) == pytest.approx((np.exp(middle - half), np.exp(middle + half)), rel=1e-6)


def test_sides_of_unequal_spread_have_the_freedom_of_welch_and_satterthwaite() -> None:
    """The after side does not spread at all: what is left is the freedom of the before side, 4."""
    found = change(steps_of(np.repeat([10, 11, 9, 10, 10], 4)), steps_of([8] * 200))
    logs = -np.log([40, 44, 36, 40, 40])
    half = 2.776445 * np.sqrt(logs.var(ddof=1) / 5)
    assert found.high / found.ratio == pytest.approx(np.exp(half), rel=1e-6)


def test_more_items_in_a_step_count_as_throughput() -> None:
    found = change(steps_of([10] * 20, items=16), steps_of([15] * 20, items=48))
    assert found.ratio == pytest.approx(2.0) and found.shown


def test_steps_that_fill_no_block_are_left_out_at_the_old_end() -> None:
    """23 steps: five blocks of four, and the three oldest, which a toggle may have disturbed, count for nothing."""
    found = change(steps_of([10] * 23), steps_of([500, 1, 77] + [10] * 20))
    assert found.ratio == pytest.approx(1.0) and not found.shown


@pytest.mark.parametrize(
    ("steps", "length"), [(14, 2), (19, 2), (20, 4), (30, 6), (59, 6), (60, 12), (239, 12), (480, 24), (3000, 144)]
)
def test_blocks_hold_whole_turns_of_workers_and_number_5_to_20(steps: int, length: int) -> None:
    assert _block_steps(steps) == length
    assert steps // length >= 5 and length >= 2


def test_two_workers_that_alternate_are_no_spread() -> None:
    found = change(steps_of([1, 19] * 15), steps_of([1, 15] * 15))
    assert (found.low, found.high) == pytest.approx((1.25, 1.25), rel=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (40, 12, "12 steps since the toggle; 15 are wanted"),
        (40, 0, "0 steps since the toggle; 15 are wanted"),
        (1, 40, "1 step before the toggle; 15 are wanted"),
    ],
)
def test_too_few_steps_are_no_change_and_say_how_many_there_are(before: int, after: int, reason: str) -> None:
    sides = [
        Completions(np.arange(n, dtype=np.int64) * MS, np.full(n, ITEMS)) for n in (before, after)
    ]
    found = change(*sides)
    assert (found.ratio, found.low, found.high, found.reason, found.shown) == (None, None, None, reason, False)
    assert change_words(found) == "…"


def test_fifteen_steps_on_each_side_are_enough() -> None:
    assert change(steps_of([10] * 14), steps_of([8] * 14)).ratio == pytest.approx(1.25)


def test_steps_that_end_at_the_same_instant_have_no_rate() -> None:
    found = change(steps_of([10] * 20), steps_of([0] * 16 + [100] * 4))
    assert found.ratio is None and "same instant" in str(found.reason)
    assert change(steps_of([10] * 20), steps_of([10] * 20, items=0)).ratio is None


def test_ends_and_items_must_be_as_many() -> None:
    with pytest.raises(TraceError, match=r"one end and one count of items a step, not \(3,\) and \(2,\)"):
        Completions(np.arange(3), np.arange(2))


@pytest.mark.parametrize("turns", [(1,), (0.2, 1.8), (0.1, 0.1, 2.8)])
def test_the_same_thing_twice_shows_no_change_nineteen_times_in_twenty(turns: Sequence[float]) -> None:
    assert share_shown(np.random.default_rng(20_261_201), 400, turns) <= 0.07


def test_the_interval_is_no_wider_than_it_must_be() -> None:
    """A rule that never spoke would pass the test above."""
    assert 0.03 <= share_shown(np.random.default_rng(7), 2000) <= 0.07


@pytest.mark.parametrize("turns", [(1,), (0.2, 1.8)])
def test_twenty_per_cent_more_is_found(turns: Sequence[float]) -> None:
    assert share_shown(np.random.default_rng(3), 200, turns, faster=1.2) >= 0.97


def of(ratio: float, low: float, high: float) -> Change:
    return Change(ratio, low, high, 100.0, 100.0 * ratio, 50, 50)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (of(1.31, 1.27, 1.35), "+31 % (+27 to +35)"),
        (of(0.96, 0.94, 0.98), "−4 % (−6 to −2)"),
        (of(1.005, 0.98, 1.03), "no change shown (−2 to +3 %)"),
        (of(1.0, 1.0, 1.0), "no change shown (0 to 0 %)"),
        (of(1.25, 1.25, 1.25), "+25 % (+25 to +25)"),
        (of(1.014, 1.009, 1.019), "+1.4 % (+0.9 to +1.9)"),
        (of(1.05, 1.002, 1.1), "+5 % (+0.2 to +10)"),
        (of(1.0, 0.9999, 1.0001), "no change shown (−0.01 to +0.01 %)"),
        (of(3.5, 3.1, 3.9), "+250 % (+210 to +290)"),
    ],
)
def test_the_words_have_the_digits_that_the_interval_carries(found: Change, words: str) -> None:
    assert change_words(found) == words


def test_rounding_of_the_last_bit_is_no_change() -> None:
    assert not of(1 + 1e-12, 1 + 1e-12, 1 + 1e-12).shown
    assert of(1 + 1e-6, 1 + 1e-6, 1 + 1e-6).shown


def test_scipy_is_imported_only_where_there_is_an_interval_to_tell() -> None:
    code = "import sys, labkit.metrics.change; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
