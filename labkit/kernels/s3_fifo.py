"""S3-FIFO: three queues, first in, first out, instead of a list that every lookup reorders. A `Policy` of `eviction.py`.

Newcomers pass through a small queue; who is looked up more than once there goes over to the main one, and everybody else leaves soon. Who left is
remembered for a while, and comes back into the main queue. (J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.)
"""

from collections import OrderedDict
from collections.abc import Container, Iterator

SMALL_SHARE = 0.1
MOST_COUNTED = 3


class S3Fifo:
    """Three queues of blocks: small and main, each with how often a block was looked up since it came there, and ghosts, which are gone."""

    def __init__(self, capacity: int):
        self._small: OrderedDict[int, int] = OrderedDict()
        self._main: OrderedDict[int, int] = OrderedDict()
        self._ghosts: OrderedDict[int, None] = OrderedDict()
        self.resize(capacity)

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def __contains__(self, block: int) -> bool:
        return block in self._small or block in self._main

    def blocks(self) -> Iterator[int]:
        """The small queue, then the main one."""
        yield from self._small
        yield from self._main

    def resize(self, capacity: int) -> None:
        """A tenth is the small queue's, at least one; the rest is the main one's, and the ghosts are as many."""
        self._small_size = min(max(int(capacity * SMALL_SHARE), 1), capacity)
        self._main_size = capacity - self._small_size
        self._cut_ghosts()

    def insert(self, block: int) -> None:
        """Into the main queue if it left the small one not long ago, else into the small one."""
        if block in self._ghosts:
            del self._ghosts[block]
            self._main[block] = 0
        else:
            self._small[block] = 0

    def touch(self, block: int) -> None:
        """Counted, up to three."""
        queue = self._small if block in self._small else self._main
        queue[block] = min(queue[block] + 1, MOST_COUNTED)

    def remove(self, block: int) -> None:
        """Out of its queue, and no ghost."""
        del (self._small if block in self._small else self._main)[block]

    def victim(self, keep: Container[int] = frozenset()) -> int:
        """From the small queue while it has its share, else from the main one."""
        small_first = len(self._small) >= self._small_size or not self._main
        queues = [self._leaving_small, self._leaving_main]
        if not small_first:
            queues.insert(0, self._leaving_main)
        return next(block for leaving in queues if (block := leaving(keep)) is not None)

    def prefers(self, block: int) -> bool:
        """Whoever comes is taken in."""
        return True

    def _leaving_small(self, keep: Container[int]) -> int | None:
        """The oldest of the small queue, as a ghost. Who was looked up more than once goes over to the main queue, which may be too full then."""
        for block in [block for block in self._small if block not in keep]:
            if self._small.pop(block) <= 1:
                self._ghosts[block] = None
                self._cut_ghosts()
                return block
            self._main[block] = 0
            if len(self._main) > self._main_size and (leaving := self._leaving_main(keep)) is not None:
                return leaving
        return None

    def _leaving_main(self, keep: Container[int]) -> int | None:
        """The oldest of the main queue that was not looked up since it came, or came round."""
        waiting = sum(block not in keep for block in self._main)
        while waiting:
            block, count = self._main.popitem(last=False)
            if block in keep:
                self._main[block] = count
            elif count:
                self._main[block] = count - 1
            else:
                return block
        return None

    def _cut_ghosts(self) -> None:
        while len(self._ghosts) > self._main_size:
            self._ghosts.popitem(last=False)
