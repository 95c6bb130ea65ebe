"""The Pareto front, against the definition."""

import math
import random

import pytest

from labkit.metrics.pareto import front


def plain_front(points: list[tuple[float, float]]) -> set[int]:
    """By the definition, in quadratic time: more is better in x, less in y."""

    def dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one[0] >= other[0] and one[1] <= other[1] and one != other

    return {place for place, point in enumerate(points) if not any(dominates(other, point) for other in points)}


@pytest.mark.parametrize("seed", range(50))
def test_it_is_what_the_definition_says(seed: int):
    rng = random.Random(seed)
    points = [(float(rng.randint(0, 12)), float(rng.randint(0, 12))) for _ in range(rng.randint(0, 40))]
    found = front([x for x, _ in points], [y for _, y in points], "higher", "lower")
    assert set(found) == plain_front(points)
    assert len(found) == len(set(found))
    xs, ys = [points[place][0] for place in found], [points[place][1] for place in found]
    assert xs == sorted(xs, reverse=True) and ys == sorted(ys, reverse=True), "from the best x to the best y"


def test_each_number_has_its_own_direction():
    x, y = [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]
    assert front(x, y, "higher", "higher") == [2]
    assert front(x, y, "lower", "lower") == [0]
    assert front(x, y, "higher", "lower") == [2, 1, 0]


def test_equal_points_are_all_on_it_and_a_number_that_is_absent_on_none():
    assert front([1.0, 1.0, math.nan], [2.0, 2.0, 1.0], "higher", "lower") == [0, 1]
    assert front([], [], "higher", "lower") == []
