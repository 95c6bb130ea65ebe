"""Is a comparison to be believed? The same against itself, and a fifth more work, on five kinds of noise and on a real op of this machine.

Judged are shares of comparisons: false alarms, effects found, and how often the interval holds the truth. There is no peer.
"""

from collections.abc import Callable
from time import perf_counter_ns

import numpy as np

from labkit.metrics.compare import Ratio, ratio_interval, sentence
from labkit.metrics.sequential import CONFIDENCE, Precision, narrow_enough
from tests.bench.measure import Line, progress, table
from tests.metrics.noise import MODELS

NAME = "compare-aa"
TRUTH = 1.2
PRECISION = Precision(0.05)
MOST = 40
REAL = "a real op"
SIDE, PRODUCTS = 128, 20
"""The op: so many products of square matrices, about a millisecond in all; A does a fifth more of them than B."""

Round = Callable[[], tuple[float, float]]


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    models, real = (20, 2) if quick else (2000, 500)
    rows, worst = [["noise", "no difference (A/A)", "+20 % found", "truth inside", "rounds"]], 1.0
    details: dict[str, float] = {}
    for name, rounds_of in {**{name: _virtual(name) for name in MODELS}, REAL: _real}.items():
        count = real if name == REAL else models
        progress(f"{name}: {count} comparisons of each kind")
        same = [_compared(rounds_of(1.0, seed)) for seed in range(count)]
        more = [_compared(rounds_of(TRUTH, count + seed)) for seed in range(count)]
        quiet = sum(sentence(ratio).startswith("no difference shown") for ratio in same) / count
        found = sum(sentence(ratio).startswith("faster by") for ratio in more) / count
        inside = sum((ratio.low or 0) <= TRUTH * (1 + 1e-9) and (ratio.high or 0) >= TRUTH * (1 - 1e-9) for ratio in more) / count
        worst = min(worst, quiet, found)
        details |= {f"{name}: quiet": quiet, f"{name}: found": found, f"{name}: inside": inside}
        mean = np.mean([ratio.n for ratio in (*same, *more)])
        rows.append([name, *(f"{100 * share:.1f} %" for share in (quiet, found, inside)), f"{mean:.1f}"])
    print(table(rows[0], rows[1:]))
    inside = [value for name, value in details.items() if name.endswith("inside") and not name.startswith(("constant", REAL))]
    return Line(
        name=NAME, ours=worst, peer=None, unit="share of comparisons", ratio=None, low=None, high=None, aa_ratio=None, rounds=models,
        passed=worst >= 0.95 and all(0.90 <= share <= 0.99 for share in inside),
        bound="no difference of A/A and +20 % found in >= 95 of 100 each; the truth inside the interval in 90 to 99 of 100 where there is noise",
        details=details,
    )  # fmt: skip


def _compared(one_round: Round) -> Ratio:
    """One comparison, as the runner makes it: rounds until the interval is narrow."""
    a: list[float] = []
    b: list[float] = []
    while len(a) < MOST and not narrow_enough(a, b, PRECISION):
        rates = one_round()
        a.append(rates[0])
        b.append(rates[1])
    return ratio_interval(a, b, CONFIDENCE)


def _virtual(name: str) -> Callable[[float, int], Round]:
    def rounds(truth: float, seed: int) -> Round:
        chance, index = np.random.default_rng(seed), iter(range(MOST))

        def one() -> tuple[float, float]:
            slow_a, slow_b = MODELS[name](chance, next(index))
            return 1 / slow_a, truth / slow_b

        return one

    return rounds


def _real(truth: float, seed: int) -> Round:
    """Products in turns that alternate; A does a fifth more of them than B where B is to be found faster."""
    chance = np.random.default_rng(seed)
    matrix = chance.random((SIDE, SIDE), np.float32)
    index = iter(range(MOST))

    def rate(products: int) -> float:
        begun_ns = perf_counter_ns()
        for _ in range(products):
            matrix @ matrix
        return 1e9 / (perf_counter_ns() - begun_ns)

    def one() -> tuple[float, float]:
        more, fewer = round(PRODUCTS * truth), PRODUCTS
        if next(index) % 2:
            b = rate(fewer)
            return rate(more), b
        return rate(more), rate(fewer)

    return one
