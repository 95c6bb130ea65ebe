"""Noise of a measured rate, as functions of a random generator: what times on real machines look like, with the truth known.

Each gives the factor on one round's time, for A and for B of that round: (factor of A, factor of B).
"""

from collections.abc import Callable

import numpy as np

Pair = tuple[float, float]
Noise = Callable[[np.random.Generator, int], Pair]


def constant(chance: np.random.Generator, index: int) -> Pair:
    """No noise at all."""
    return 1.0, 1.0


def log_normal(chance: np.random.Generator, index: int) -> Pair:
    """Skewed to the slow side, by 5 %."""
    a, b = chance.lognormal(0, 0.05, 2)
    return float(a), float(b)


def bimodal(chance: np.random.Generator, index: int) -> Pair:
    """Two states of the machine, 15 % apart (another clock rate, another core), and a little besides."""
    a, b = 1 + 0.15 * (chance.random(2) < 0.3) + chance.normal(0, 0.01, 2)
    return float(a), float(b)


def drifting(chance: np.random.Generator, index: int) -> Pair:
    """The machine gets 2 % slower from round to round, for both sides, and 3 % besides."""
    level = 1.02**index
    a, b = level * chance.lognormal(0, 0.03, 2)
    return float(a), float(b)


def spiky(chance: np.random.Generator, index: int) -> Pair:
    """One round of eight takes half as long again, and 2 % besides."""
    a, b = (1 + 0.5 * (chance.random(2) < 0.125)) * chance.lognormal(0, 0.02, 2)
    return float(a), float(b)


MODELS: dict[str, Noise] = {noise.__name__: noise for noise in (constant, log_normal, bimodal, drifting, spiky)}
