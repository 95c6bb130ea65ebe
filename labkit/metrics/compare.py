"""B against A: the ratio of paired rounds, its interval, and the sentence that says no more than it shows.

Rounds are paired because both sides of a round saw the same neighbours and the same temperature. Ratios
multiply, so their logarithms are averaged: the estimate is the geometric mean, the interval Student's t on
the logarithms ("Student", "The Probable Error of a Mean", Biometrika 6(1), 1908).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, isfinite, log, sqrt

import numpy as np

from labkit.metrics.metric import Better
from labkit.units import format_percent


@dataclass(frozen=True, slots=True)
class Ratio:
    """B ÷ A over n paired rounds, with its confidence interval; or the reason why there is none.

    detectable  the smallest effect that such an interval would have shown in four of five comparisons, as a share: 0.04 is 4 %
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None
    detectable: float | None = None


def ratio_interval(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """The ratio b ÷ a of rounds measured in turns: a[0] beside b[0], and so on."""
    reason = _refusal(a, b, confidence)
    if reason:
        return Ratio(None, None, None, min(len(a), len(b)), reason)
    logs = np.log(np.asarray(b, float)) - np.log(np.asarray(a, float))
    n, mean = len(logs), float(logs.mean())
    error = float(logs.std(ddof=1)) / sqrt(n)
    half = _t(confidence, n - 1) * error
    return Ratio(exp(mean), exp(mean - half), exp(mean + half), n, None, smallest_effect(error, n, confidence))


def smallest_effect(error: float, n: int, confidence: float = 0.95, power: float = 0.8) -> float:
    """The smallest effect, as a share, that n paired rounds whose mean log ratio has this standard error show with this power:
    exp((t at (1 + confidence) / 2 + t at power) · error) − 1 (the usual power calculation of a t test, on logarithms)."""
    return expm1((_t(confidence, n - 1) + _t(2 * power - 1, n - 1)) * error)


def sentence(
    ratio: Ratio, better: Better | None = "higher", words: tuple[str, str] = ("faster", "slower")
) -> str:
    """What the ratio shows of B: `faster by 1.43× (1.38 to 1.49)`, or `no difference shown (0.98 to 1.03)`.

    better  whether a larger value of what was compared is an improvement
    words   what an improvement and its opposite are called
    """
    if ratio.value is None or ratio.low is None or ratio.high is None:
        return f"no comparison: {ratio.reason}"
    if ratio.low <= 1 <= ratio.high:
        unseen = f"; an effect under {_share(ratio.detectable)} could not have been seen here" if ratio.detectable else ""
        return f"no difference shown ({_digits(ratio.low)} to {_digits(ratio.high)}){unseen}"
    word = words[0] if (ratio.value > 1) == (better != "lower") else words[1]
    value, low, high = ratio.value, ratio.low, ratio.high
    if value < 1:
        value, low, high = 1 / value, 1 / high, 1 / low
    return f"{word} by {_digits(value)}× ({_digits(low)} to {_digits(high)})"


def _t(confidence: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _refusal(a: Sequence[float], b: Sequence[float], confidence: float) -> str | None:
    if not 0 < confidence < 1:
        return f"confidence {confidence} is out of range: more than 0 and less than 1"
    if len(a) != len(b):
        return f"A has {len(a)} rounds and B has {len(b)}: rounds are compared in pairs"
    if len(a) < 2:
        there = "there is 1" if len(a) == 1 else f"there are {len(a)}"
        return f"an interval needs 2 rounds of each side or more; {there}"
    bad = [value for value in (*a, *b) if not (isfinite(value) and value > 0)]
    return f"a ratio needs finite values above 0; got {bad[0]}" if bad else None


def _share(value: float) -> str:
    return format_percent(value) if value >= 0.001 else "0.1 %"


def _digits(value: float) -> str:
    """Two decimals; four where two would say 1.00 of something that is not 1."""
    return f"{value:.4f}" if 0 < abs(log(value)) < 0.005 else f"{value:.2f}"
