"""Which block each lookup asks for: Zipf, scan, loop, a mixture, or a list that was recorded; and what the future of it holds.

A sequence is made beforehand and repeats after its last lookup, so that an optimum and an oracle can know all of it. Zipf: block of rank r is
asked for in proportion to 1 ÷ r^skew, ranks scattered over the table. (L. Breslau et al., "Web caching and Zipf-like distributions", INFOCOM 1999.)
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from math import gcd
from typing import Any, Literal

import numpy as np

Pattern = Literal["zipf", "scan", "loop", "mixture", "replay"]

PERIOD = 1 << 16
"""Lookups after which a random pattern repeats."""
FURTHEST = 512
"""How many lookups ahead an oracle looks for blocks that it has not seen yet."""


class Accesses:
    """An endless sequence: `blocks`, [n], over and over. Lookups are numbered from 0."""

    def __init__(self, blocks: Sequence[int]):
        self._listed = list(blocks)

    def __len__(self) -> int:
        """After so many lookups it repeats."""
        return len(self._listed)

    def at(self, lookup: int) -> int:
        """The block that this lookup asks for."""
        return self._listed[lookup % len(self._listed)]

    def next_use(self, block: int, lookup: int) -> int:
        """The first lookup after this one that asks for the block; one that is never asked for has none: a number that no run reaches."""
        places = self._places.get(block)
        if places is None:
            return 1 << 62
        turn, place = divmod(lookup, len(self._listed))
        index = bisect_right(places, place)
        if index < len(places):
            return turn * len(self._listed) + places[index]
        return (turn + 1) * len(self._listed) + places[0]

    def coming(self, lookup: int, count: int) -> list[int]:
        """The next `count` distinct blocks after this lookup that it does not ask for itself, the nearest first; fewer where no more come soon."""
        seen = {self.at(lookup): None}
        for place in range(lookup + 1, lookup + 1 + min(FURTHEST, len(self._listed))):
            if len(seen) > count:
                break
            seen.setdefault(self.at(place))
        return list(seen)[1:]

    @cached_property
    def _places(self) -> dict[int, list[int]]:
        """Block → where in the sequence it is asked for, ascending."""
        places: dict[int, list[int]] = {}
        for place, block in enumerate(self._listed):
            places.setdefault(block, []).append(place)
        return places


def accesses_of(knobs: Any, replayed: Sequence[int] = ()) -> Accesses:
    """The sequence that the knobs ask for: pattern, skew, loop_blocks, stride, shuffled, scan_share, blocks, seed. `replayed` is the recorded one."""
    if knobs.pattern == "replay":
        return Accesses(replayed)
    generator = np.random.default_rng(knobs.seed)
    if knobs.pattern in ("scan", "loop"):
        count = knobs.blocks if knobs.pattern == "scan" else min(knobs.loop_blocks, knobs.blocks)
        table = generator.permutation(knobs.blocks) if knobs.shuffled else np.arange(knobs.blocks)
        return Accesses(table[strided(count, knobs.stride)].tolist())
    blocks = _zipf(generator, knobs.blocks, knobs.skew)
    if knobs.pattern == "mixture":
        scanning = np.flatnonzero(generator.random(PERIOD) < knobs.scan_share)
        blocks[scanning] = strided(knobs.blocks, knobs.stride)[np.arange(len(scanning)) % knobs.blocks]
    return Accesses(blocks.tolist())


def strided(count: int, stride: int) -> np.ndarray:
    """0 to `count` − 1, each once, `stride` apart: 0, 3, 6, 1, 4, 7, 2, 5 for 8 and 3; where a round comes back to its start, the next begins one further on."""
    places = np.arange(count, dtype=np.int64)
    round_ = count // gcd(count, stride)
    return (places * stride + places // round_) % count


def _zipf(generator: np.random.Generator, blocks: int, skew: float) -> np.ndarray:
    """PERIOD draws, int64."""
    weights = np.arange(1, blocks + 1, dtype=np.float64) ** -skew
    bounds = np.cumsum(weights / weights.sum())
    ranks = np.minimum(np.searchsorted(bounds, generator.random(PERIOD), side="right"), blocks - 1)
    return generator.permutation(blocks)[ranks]
