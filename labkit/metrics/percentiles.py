"""Percentiles, and the refusal to invent them: a tail that no sample reaches into has no percentile.

The rule: the p-th percentile needs at least 1 / (1 − q) samples (20 for p95, 100 for p99, 1000 for p99.9),
and as many on the lower side; the median needs one. In between two samples it is interpolated linearly (R.
Hyndman and Y. Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4), 1996,
definition 7).
"""

from collections.abc import Sequence
from math import ceil, floor

import numpy as np

from labkit.errors import LabkitError
from labkit.metrics.metric import Better, Metric

_ROUNDING = 1e-9


def samples_needed(q: float) -> int:
    """How many samples the percentile at `q` (0.99 for p99) needs. Raises LabkitError unless 0 < q < 1."""
    if not 0 < q < 1:
        raise LabkitError(f"percentile q={q} is out of range: more than 0 and less than 1 (0.99 for p99)")
    return 1 if q == 0.5 else ceil(1 / min(q, 1 - q) - _ROUNDING)


def quantile(ordered: Sequence[float] | np.ndarray, q: float) -> float:
    """The value at `q` of samples in ascending order: never outside them, never smaller for a larger q."""
    position = q * (len(ordered) - 1)
    below = floor(position)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return min(max(low + (high - low) * (position - below), low), high)


def percentile(
    samples: Sequence[float] | np.ndarray,
    q: float,
    *,
    name: str = "",
    unit: str = "ns",
    definition: str = "",
    better: Better | None = "lower",
) -> Metric:
    """The percentile at `q` of the samples, or the reason why these samples do not have one."""
    values = np.sort(np.asarray(samples, float))
    words = percentile_name(q)
    reason = _refusal(values, q, words)
    value = None if reason else quantile(values, q)
    return Metric(
        name or words, value, unit, len(values), definition or f"{words} of the samples", better, reason
    )


def percentile_name(q: float) -> str:
    """`p99` for 0.99, `p99.9` for 0.999."""
    return f"p{round(100 * q, 6):g}"


def _refusal(values: np.ndarray, q: float, words: str) -> str | None:
    needed, have = samples_needed(q), len(values)
    if have < needed:
        there = "there is 1" if have == 1 else f"there are {have}"
        return f"{words} needs at least {needed} sample{'s' * (needed > 1)}; {there}"
    bad = have - int(np.isfinite(values).sum())
    return f"{bad} of {have} samples are not finite numbers" if bad else None
