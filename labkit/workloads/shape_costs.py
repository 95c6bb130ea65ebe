"""The cost of a transformer's pass over a batch of any size and length, from a few passes that were counted.

Counting a pass takes some ten milliseconds, in which a server would serve nobody, and every batch has a shape of its own. But with n
sequences of t tokens, every operator's FLOP and bytes are a + b·t + n·(c + d·t + e·t²) in whole numbers, and so is their sum. A single
sequence is another program (some transposed tensors need no copy then) and is counted for itself.
"""

from collections.abc import Callable
from itertools import starmap

import numpy as np

from labkit.schedule import Cost

_ALONE = ((1, 8), (1, 16), (1, 24))
_SEVERAL = ((2, 8), (2, 16), (2, 24), (3, 8), (3, 16))


class ShapeCosts:
    """Costs by shape. `count` gives that of (n, t), counted; it is asked for a few small shapes at once, not while requests wait."""

    def __init__(self, count: Callable[[int, int], Cost]):
        self._count = count
        self._solved = {True: self._solve(_ALONE), False: self._solve(_SEVERAL)}

    def cost(self, n: int, t: int) -> Cost:
        """Of n sequences of t tokens, t a multiple of 8."""
        flop, bytes_, form = self._solved[n == 1]
        return form._replace(flop=_sum(flop, n, t), bytes=_sum(bytes_, n, t))

    def _solve(self, shapes: tuple[tuple[int, int], ...]) -> tuple[list[int], list[int], Cost]:
        counted = list(starmap(self._count, shapes))
        terms = np.array([_terms(n, t)[: len(shapes)] for n, t in shapes], float)
        flop, bytes_ = (np.linalg.solve(terms, [getattr(cost, name) for cost in counted]) for name in ("flop", "bytes"))
        return [round(factor) for factor in flop], [round(factor) for factor in bytes_], counted[0]


def _terms(n: int, t: int) -> tuple[int, ...]:
    """For n = 1 the first three say it all."""
    return 1, t, n * t * t, n, n * t


def _sum(factors: list[int], n: int, t: int) -> int:
    return sum(factor * term for factor, term in zip(factors, _terms(n, t), strict=False))
