"""The Pareto front: of many settings, those that no other one beats in one number without losing in the other (V. Pareto, "Manuale di economia
politica", 1906)."""

from collections.abc import Sequence
from typing import Literal

Better = Literal["higher", "lower"]


def front(x: Sequence[float], y: Sequence[float], better_x: Better, better_y: Better) -> list[int]:
    """The places of the points that no other point dominates, from the best x to the best y.

    A point dominates another if it is no worse in both numbers and better in one; equal points do not dominate each other. A point with a
    NaN is on no front. O(n log n).
    """
    goods = [(_good(across, better_x), _good(up, better_y), place) for place, (across, up) in enumerate(zip(x, y, strict=True))]
    ordered = sorted((good for good in goods if good[0] == good[0] and good[1] == good[1]), key=lambda good: (-good[0], -good[1], good[2]))
    found: list[tuple[float, float, int]] = []
    for good in ordered:
        if not found or good[1] > found[-1][1] or good[:2] == found[-1][:2]:
            found.append(good)
    return [place for _, _, place in found]


def _good(value: float, better: Better) -> float:
    return float(value) if better == "higher" else -float(value)
