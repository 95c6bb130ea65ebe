"""Which blocks will be looked up next, guessed from those that were: nothing, the next n, a stride, Markov, and an oracle as the bound.

Pure state, no device: `tiers.py` tells a prefetcher each lookup, and asks what comes after it. Stride: D. Joseph and D. Grunwald call it and
Markov the two simple ones ("Prefetching using Markov predictors", ISCA 1997); here a stride counts once it was seen twice, and Markov follows
the successor seen most often, of those the latest.
"""

from collections.abc import Callable
from typing import Literal, Protocol

PrefetcherName = Literal["none", "next-n", "stride", "markov", "oracle"]


class Prefetcher(Protocol):
    """Guesses from the lookups so far."""

    def observe(self, block: int) -> None:
        """A block is looked up."""
        ...

    def ahead(self, count: int) -> list[int]:
        """Up to `count` blocks that will be looked up next, the nearest first; some may not exist, or be on the device already."""
        ...


class NoPrefetch:
    """Guesses nothing."""

    def observe(self, block: int) -> None:
        """Not looked at."""

    def ahead(self, count: int) -> list[int]:
        """None."""
        return []


class NextN:
    """The blocks that follow in the table."""

    def __init__(self) -> None:
        self._last = 0

    def observe(self, block: int) -> None:
        """They follow this one."""
        self._last = block

    def ahead(self, count: int) -> list[int]:
        """The next ones."""
        return [self._last + distance for distance in range(1, count + 1)]


class Stride:
    """As far apart as the last three lookups, if those were evenly apart."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._stride, self._certain = 0, False

    def observe(self, block: int) -> None:
        """The distance from the one before counts if it is the same once more."""
        if self._last is not None:
            stride = block - self._last
            self._certain = stride != 0 and stride == self._stride
            self._stride = stride
        self._last = block

    def ahead(self, count: int) -> list[int]:
        """Further on by the same stride."""
        if self._last is None or not self._certain:
            return []
        return [self._last + self._stride * times for times in range(1, count + 1)]


class Markov:
    """What came after this block most often so far, what came most often after that, and so on. Learned online; a block's successors are counted."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._counts: dict[int, dict[int, int]] = {}
        self._likeliest: dict[int, int] = {}

    def observe(self, block: int) -> None:
        """It came after the one before."""
        if self._last is not None:
            counts = self._counts.setdefault(self._last, {})
            counts[block] = counts.get(block, 0) + 1
            if counts[block] >= counts.get(self._likeliest.get(self._last, block), 0):
                self._likeliest[self._last] = block
        self._last = block

    def ahead(self, count: int) -> list[int]:
        """The chain of likeliest successors, until it is not known or comes back to itself."""
        chain: list[int] = []
        block = self._last
        while len(chain) < count and block is not None:
            block = self._likeliest.get(block)
            if block is None or block in chain or block == self._last:
                break
            chain.append(block)
        return chain


class Oracle:
    """What really comes.

    coming  how many → the next distinct blocks after the present lookup
    """

    def __init__(self, coming: Callable[[int], list[int]]):
        self._coming = coming

    def observe(self, block: int) -> None:
        """It knew."""

    def ahead(self, count: int) -> list[int]:
        """The truth."""
        return self._coming(count)


def prefetcher_named(name: PrefetcherName, coming: Callable[[int], list[int]]) -> Prefetcher:
    """A prefetcher that has seen nothing yet; `coming` is for the one that knows the future."""
    if name == "oracle":
        return Oracle(coming)
    return {"none": NoPrefetch, "next-n": NextN, "stride": Stride, "markov": Markov}[name]()
