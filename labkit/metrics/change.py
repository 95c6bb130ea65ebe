"""The change since a toggle, inside one run: throughput of the steps after it against that of the steps before it.

Times between the steps of a run depend on one another, so steps are no samples. Each side is cut into blocks of equal numbers of
steps, and the rate of a block is a sample: non-overlapping batch means (A. M. Law, W. D. Kelton, "Simulation Modeling and
Analysis", chapter 9). The two sides differ in spread and in number, hence Welch's t (B. L. Welch, "The Generalization of
'Student's' Problem When Several Different Population Variances Are Involved", Biometrika 34, 1947), on logarithms, because
rates multiply.

The interval holds for one look: who looks until it shows a change will see one more often than once in twenty. And each side saw
one stretch of time: a drift of the machine shows as a change too. To be relied on, A and B are measured in turns (`compare`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from labkit.errors import TraceError
from labkit.units import NS_PER_S

STEPS_WANTED = 15
"""On each side; they give seven blocks of two steps."""

BLOCKS_LEAST, BLOCKS_MOST = 5, 20
_ROUND_LENGTHS = (12, 6, 4, 2)
_SAME = 1e-9
"""Rates closer than this, as a share, are the same: rounding of floating point, finer than any clock."""


@dataclass(frozen=True, eq=False)
class Completions:
    """Consecutive completed steps, in order: when each ended [n, int64 ns], and how many items it completed [n, int64].

    Leave out the steps that were in flight while the knob was turned.
    """

    end_ns: np.ndarray
    items: np.ndarray

    def __post_init__(self) -> None:
        if self.end_ns.ndim != 1 or self.end_ns.shape != self.items.shape:
            raise TraceError(f"completions need one end and one count of items a step, not {self.end_ns.shape} and {self.items.shape}")

    def __len__(self) -> int:
        return len(self.end_ns)


@dataclass(frozen=True, slots=True)
class Change:
    """Throughput after ÷ before with its confidence interval, or the reason why there is none.

    before_per_s, after_per_s  items per second of each side, None where too few steps tell
    before, after              steps of each side
    """

    ratio: float | None
    low: float | None
    high: float | None
    before_per_s: float | None
    after_per_s: float | None
    before: int
    after: int
    reason: str | None = None

    @property
    def shown(self) -> bool:
        """Whether the interval leaves out "no change"."""
        return self.low is not None and self.high is not None and (self.low > 1 + _SAME or self.high < 1 - _SAME)


def change(before: Completions, after: Completions, confidence: float = 0.95) -> Change:
    """Throughput after the toggle against before it. Takes some tens of microseconds for a few thousand steps."""
    sides = [_block_rates(side) for side in (before, after)]
    overall = [_overall_per_s(side) for side in (before, after)]
    reason = _refusal(before, after, sides)
    if reason:
        return Change(None, None, None, *overall, len(before), len(after), reason)
    logs = [np.log(rates) for rates in sides]
    middle = float(logs[1].mean() - logs[0].mean())
    half = _half_width([float(each.var(ddof=1)) / len(each) for each in logs], [len(each) for each in logs], confidence)
    return Change(exp(middle), exp(middle - half), exp(middle + half), *overall, len(before), len(after))


def change_words(found: Change) -> str:
    """`+31 % (+27 to +35)`, `−4 % (−6 to −2)`, `no change shown (−2 to +3 %)`; `…` while too few steps tell."""
    if found.ratio is None or found.low is None or found.high is None:
        return "…"
    value, low, high = (100 * (ratio - 1) for ratio in (found.ratio, found.low, found.high))
    decimals = 0 if high - low >= 2 or abs(value) >= 9.5 else 1
    interval = f"{_signed(low, decimals)} to {_signed(high, decimals)}"
    if not found.shown:
        return f"no change shown ({interval} %)"
    return f"{_signed(value, decimals)} % ({interval})"


def _block_rates(side: Completions) -> np.ndarray:
    """Items per ns of each block; the oldest steps are left out where they fill none. Not finite where a block took no time."""
    steps = len(side) - 1  # the first completion opens the first block
    if steps < 2 * BLOCKS_LEAST:
        return np.empty(0)
    length = _block_steps(steps)
    blocks = min(steps // length, BLOCKS_MOST)
    first = steps - blocks * length
    edges = side.end_ns[first::length]
    items = np.add.reduceat(side.items[first + 1 :], np.arange(blocks) * length)
    with np.errstate(divide="ignore", invalid="ignore"):
        return items / np.diff(edges)


def _block_steps(steps: int) -> int:
    """Steps in a block: a dozen, fewer where that makes too few blocks, dozens where it makes too many. Workers whose batches
    come in turns do not show as spread: a dozen holds whole turns of 2, 3, 4 and 6 of them."""
    longest = steps // min(max(steps // _ROUND_LENGTHS[0], BLOCKS_LEAST), BLOCKS_MOST)
    unit = next(length for length in _ROUND_LENGTHS if length <= longest)
    return longest - longest % unit


def _overall_per_s(side: Completions) -> float | None:
    if len(side) < 2 or side.end_ns[-1] <= side.end_ns[0]:
        return None
    return float(side.items[1:].sum()) * NS_PER_S / float(side.end_ns[-1] - side.end_ns[0])


def _refusal(before: Completions, after: Completions, sides: Sequence[np.ndarray]) -> str | None:
    for side, where in ((after, "since"), (before, "before")):
        if len(side) < STEPS_WANTED:
            steps = f"{len(side)} step{'' if len(side) == 1 else 's'}"
            return f"{steps} {where} the toggle; {STEPS_WANTED} are wanted"
    if not all(np.isfinite(rates).all() and (rates > 0).all() for rates in sides):
        return "some steps ended at the same instant or completed no items: they have no rate"
    return None


def _half_width(squares: Sequence[float], blocks: Sequence[int], confidence: float) -> float:
    """Half of Welch's interval on the logarithms; `squares` are the squared standard errors of the two means."""
    total = sum(squares)
    if total <= 0:
        return 0.0
    freedom = total**2 / sum(square**2 / (n - 1) for square, n in zip(squares, blocks, strict=True))
    return _t(confidence, freedom) * sqrt(total)


def _t(confidence: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _signed(percent: float, decimals: int) -> str:
    """`+31`, `−4`, `0`; a number that would read as nothing gets the decimals that show it, three at most."""
    while decimals < 3 and abs(percent) > 1e-6 and round(percent, decimals) == 0:
        decimals += 1
    rounded = round(percent, decimals)
    if rounded == 0:
        return "0"
    return f"{'+' if rounded > 0 else '−'}{abs(rounded):.{decimals}f}"
