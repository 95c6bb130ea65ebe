"""When to stop measuring: as soon as the interval is narrow enough, and never later than the budget allows.

Who looks at an interval after every round and stops when it suits finds differences that are not there. Two things hold against that.
The rule looks at the width alone and never at the value (fixed-width intervals: Chow and Robbins, "On the Asymptotic Theory of Fixed-Width
Sequential Confidence Intervals for the Mean", Annals of Mathematical Statistics 36(2), 1965); and it looks a few times only, each
time at an interval of 98 %, which leaves 95 % and more of what ends up being said right. By simulation over five kinds of noise
(tests/metrics/noise.py): 2 to 4 false alarms in 100, the truth inside the interval in 95 to 99 of 100.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.errors import ExperimentError
from labkit.metrics.compare import Ratio, ratio_interval

LOOKS = (5, 8, 12, 18, 27, 40, 60, 90)
"""Rounds after which the interval is looked at: each about half as many again."""
MOST_ROUNDS = LOOKS[-1]
"""After the last look there is nothing to wait for."""
CONFIDENCE = 0.98


@dataclass(frozen=True)
class Precision:
    """Measure until the interval reaches no further than this share to either side, or the time is spent.

    share     0.05: 1.43 is given as 1.36 to 1.50 or closer
    budget_s  wall time after which no further round begins
    """

    share: float = 0.05
    budget_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0.001 <= self.share <= 1:
            raise ExperimentError(f"precision={self.share} is out of range: 0.001 to 1 are allowed (0.05: 5 % to either side)")
        if not 0 < self.budget_s <= 86_400:
            raise ExperimentError(f"budget_s={self.budget_s} is out of range: more than 0, at most 86400 (a day)")

    @property
    def words(self) -> str:
        """`±5 %`."""
        return f"±{100 * self.share:g} %"


def narrow_enough(a: Sequence[float], b: Sequence[float], precision: Precision) -> bool:
    """Whether this is a round after which one looks, and the interval of b ÷ a is narrow enough; rounds are paired."""
    if len(a) not in LOOKS:
        return False
    ratio = ratio_interval(a, b, CONFIDENCE)
    return is_narrow(ratio, precision)


def is_narrow(ratio: Ratio, precision: Precision) -> bool:
    """Whether an interval is as narrow as was asked for."""
    if ratio.value is None or ratio.low is None or ratio.high is None:
        return False
    return max(ratio.high / ratio.value, ratio.value / ratio.low) <= 1 + precision.share + 1e-12
