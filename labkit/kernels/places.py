"""The buffers of one tier, seen from the host program: where each block lies, and who must be done before a buffer is written again.

As everywhere, the kernel hands out numbers and the workload owns the memory behind them. A few more buffers than the tier may hold blocks let the
next block come while the one that leaves is still copied away.
"""

from collections import deque
from collections.abc import Iterator

from labkit.schedule import Handle, Lane


class Place:
    """A buffer for one block: the op that wrote it last, and those that read it since, the last of each lane."""

    __slots__ = ("number", "arrived", "_readers")

    def __init__(self, number: int) -> None:
        self.number = number
        self.arrived: Handle | None = None
        self._readers: dict[Lane, Handle] = {}

    @property
    def written(self) -> tuple[Handle, ...]:
        """What a reader has to wait for."""
        return () if self.arrived is None else (self.arrived,)

    @property
    def users(self) -> tuple[Handle, ...]:
        """What a writer has to wait for."""
        return (*self.written, *self._readers.values())

    def write(self, handle: Handle) -> None:
        """This op fills it; it waits for all users so far."""
        self.arrived = handle
        self._readers.clear()

    def read(self, lane: Lane, handle: Handle) -> None:
        """This op reads it. Ops of a lane of one unit run in order, so that the last stands for all of them."""
        self._readers[lane] = handle


class Places:
    """All places of a tier: those where blocks lie, by block, and the free ones."""

    def __init__(self) -> None:
        self.of: dict[int, Place] = {}
        self._free: deque[Place] = deque()
        self._made = self.count = 0

    def take(self, most: int) -> Place:
        """The place that has been free the longest, or a new one while there are not yet so many."""
        if self._free and self.count >= most:
            return self._free.popleft()
        self._made += 1
        self.count += 1
        return Place(self._made - 1)

    def give_back(self, place: Place) -> None:
        """It may be written again, after its users."""
        self._free.append(place)

    def surplus(self, most: int) -> Iterator[Place]:
        """Free places that are more than there shall be; whoever takes them here lets go of them."""
        while self.count > most and self._free:
            self.count -= 1
            yield self._free.popleft()
