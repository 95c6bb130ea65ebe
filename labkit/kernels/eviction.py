"""Who leaves a full tier: LRU, LFU, CLOCK, S3-FIFO, and Belady's optimum, which knows the future and is the bound.

Pure state, no device: `residence.py` tells a policy what comes, is looked up and leaves, and asks it for a victim. LRU: the block that was
looked up the longest ago. LFU: the one looked up the fewest times since it came, of those the longest ago. CLOCK: first in, first out, but
what was looked up since the hand passed goes round once more (F. Corbató, 1968). S3-FIFO is in `s3_fifo.py`. Belady: the one whose next use
is the furthest away (L. Belady, IBM Systems Journal 5(2), 1966); what it keeps of a small tier it also keeps of a larger one (R. Mattson et
al., ibid. 9(2), 1970), so that one device and host tier after another are optimal together.
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from heapq import heapify, heappop, heappush
from typing import Literal, Protocol

from labkit.kernels.s3_fifo import S3Fifo

PolicyName = Literal["lru", "lfu", "clock", "s3-fifo", "belady"]

NOBODY: frozenset[int] = frozenset()
STALE = 8
"""How many times larger than what is true the heap of the optimum may become."""


class Policy(Protocol):
    """The blocks of one tier, and who of them leaves first."""

    def __len__(self) -> int: ...

    def __contains__(self, block: int) -> bool: ...

    def blocks(self) -> Iterator[int]:
        """All of them, roughly in the order in which they would leave."""
        ...

    def resize(self, capacity: int) -> None:
        """How many blocks the tier may hold from now on; whoever calls takes victims until it holds no more."""
        ...

    def insert(self, block: int) -> None:
        """A block came. The tier has room for it."""
        ...

    def touch(self, block: int) -> None:
        """A block of the tier was looked up."""
        ...

    def remove(self, block: int) -> None:
        """A block went elsewhere, not as a victim."""
        ...

    def victim(self, keep: Container[int] = NOBODY) -> int:
        """Take out the block that leaves first of those that are not in `keep`; there must be one."""
        ...

    def prefers(self, block: int) -> bool:
        """Whether a full tier should take this block in and let another go. Only who knows the future says no."""
        ...


class _Ordered:
    """Blocks in one order, the next to leave first."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._order: OrderedDict[int, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, block: int) -> bool:
        return block in self._order

    def blocks(self) -> Iterator[int]:
        """In the order of the list."""
        return iter(self._order)

    def resize(self, capacity: int) -> None:
        """The order does not depend on it."""
        self._capacity = capacity

    def insert(self, block: int) -> None:
        """At the end of the list, not yet looked up since."""
        self._order[block] = False

    def remove(self, block: int) -> None:
        """Out of the list."""
        del self._order[block]

    def prefers(self, block: int) -> bool:
        """Whoever comes is taken in."""
        return True


class Lru(_Ordered):
    """The one that was looked up the longest ago leaves."""

    def touch(self, block: int) -> None:
        """To the end of the list."""
        self._order.move_to_end(block)

    def victim(self, keep: Container[int] = NOBODY) -> int:
        """The first of the list."""
        block = next(block for block in self._order if block not in keep)
        del self._order[block]
        return block


class Clock(_Ordered):
    """First in, first out; who was looked up since the hand passed is passed over once. The hand stands at the front of the list."""

    def touch(self, block: int) -> None:
        """Marked."""
        self._order[block] = True

    def victim(self, keep: Container[int] = NOBODY) -> int:
        """The first that the hand finds unmarked; whom it passes it unmarks, and leaves behind."""
        while True:
            block, marked = next(iter(self._order.items()))
            if block not in keep and not marked:
                del self._order[block]
                return block
            self._order[block] = marked and block in keep
            self._order.move_to_end(block)


class Lfu:
    """The one that was looked up the fewest times since it came leaves; coming counts once."""

    def __init__(self, capacity: int):
        self._count: dict[int, int] = {}
        self._of_count: dict[int, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._count)

    def __contains__(self, block: int) -> bool:
        return block in self._count

    def blocks(self) -> Iterator[int]:
        """By count, and within a count by age of the last lookup."""
        for count in sorted(self._of_count):
            yield from self._of_count[count]

    def resize(self, capacity: int) -> None:
        """Counts do not depend on it."""

    def insert(self, block: int) -> None:
        """It came once."""
        self._put(block, 1)

    def touch(self, block: int) -> None:
        """Once more."""
        self._put(block, self._take(block) + 1)

    def remove(self, block: int) -> None:
        """Its count is forgotten."""
        self._take(block)

    def victim(self, keep: Container[int] = NOBODY) -> int:
        """Of the lowest count, who was looked up the longest ago."""
        block = next(block for block in self.blocks() if block not in keep)
        self._take(block)
        return block

    def prefers(self, block: int) -> bool:
        """Whoever comes is taken in."""
        return True

    def _put(self, block: int, count: int) -> None:
        self._count[block] = count
        self._of_count.setdefault(count, OrderedDict())[block] = None

    def _take(self, block: int) -> int:
        count = self._count.pop(block)
        blocks = self._of_count[count]
        del blocks[block]
        if not blocks:
            del self._of_count[count]
        return count


class Belady:
    """The one whose next use is the furthest away leaves.

    next_use  block → the number of the lookup that asks for it next, after the present one
    """

    def __init__(self, next_use: Callable[[int], int]):
        self._next_use = next_use
        self._when: dict[int, int] = {}
        self._furthest: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, block: int) -> bool:
        return block in self._when

    def blocks(self) -> Iterator[int]:
        """The furthest first."""
        return iter(sorted(self._when, key=lambda block: (-self._when[block], block)))

    def resize(self, capacity: int) -> None:
        """The future does not depend on it."""

    def insert(self, block: int) -> None:
        """With its next use."""
        self._when[block] = when = self._next_use(block)
        heappush(self._furthest, (-when, block))
        if len(self._furthest) > STALE * (len(self._when) + STALE):
            self._furthest = [(-when, block) for block, when in self._when.items()]
            heapify(self._furthest)

    def touch(self, block: int) -> None:
        """Its next use is another one now; what the heap says of it is no longer true."""
        self.insert(block)

    def remove(self, block: int) -> None:
        """Its entry in the heap is no longer true."""
        del self._when[block]

    def victim(self, keep: Container[int] = NOBODY) -> int:
        """The furthest that may leave."""
        kept = []
        while True:
            entry = self._first()
            heappop(self._furthest)
            if entry[1] not in keep:
                break
            kept.append(entry)
        for other in kept:
            heappush(self._furthest, other)
        del self._when[entry[1]]
        return entry[1]

    def prefers(self, block: int) -> bool:
        """Whether its next use comes before that of whoever would leave."""
        return self._next_use(block) < -self._first()[0]

    def _first(self) -> tuple[int, int]:
        """The first entry of the heap that is still true."""
        while self._when.get(self._furthest[0][1]) != -self._furthest[0][0]:
            heappop(self._furthest)
        return self._furthest[0]


def policy_named(name: PolicyName, capacity: int, next_use: Callable[[int], int]) -> Policy:
    """An empty tier under the policy of this name; `next_use` is for the one that knows the future."""
    if name == "belady":
        return Belady(next_use)
    return {"lru": Lru, "lfu": Lfu, "clock": Clock, "s3-fifo": S3Fifo}[name](capacity)
