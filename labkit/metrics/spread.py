"""The spread of step intervals: how far they lie apart, without calling a regular pattern noise.

Two workers that load in parallel complete in pairs: short, long, short, long. Over as many steps as there are units in flight such a
pattern adds up to the same time again and again, and noise does not. Sums of k independent intervals spread √k times less than one of
them relative to their median, so they are judged times √k: noise keeps its spread, whatever k is, and a pattern loses it.
"""

from math import sqrt

import numpy as np

from labkit.metrics.percentiles import quantile

_SUMS_WANTED = 5
"""Independent sums that there should be: with fewer, a spread says little."""


def spread(intervals_ns: np.ndarray, in_flight: int = 1) -> float:
    """Interquartile range ÷ median of the intervals, or of the sums of `in_flight` neighbours where that is less; 0 where there are none."""
    if len(intervals_ns) < 2:
        return 0.0
    together = max(min(in_flight, len(intervals_ns) // _SUMS_WANTED), 1)
    return min(_of_sums(intervals_ns, 1), sqrt(together) * _of_sums(intervals_ns, together))


def _of_sums(intervals_ns: np.ndarray, together: int) -> float:
    ends = np.concatenate([[0], np.cumsum(intervals_ns)])
    ordered = np.sort(ends[together:] - ends[:-together])
    median = quantile(ordered, 0.5)
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / median if median > 0 else 0.0
