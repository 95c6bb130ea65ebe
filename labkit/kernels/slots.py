"""A ring of buffers, seen from the host program: which slot to fill next, and who must be done with it first.

The kernel hands out slot numbers; the workload owns the memory behind them. A slot's host buffer may be filled again
once its copy has ended, its device buffer once its last reader has. One spare slot is kept free, so that a load does
not wait for the copy that was submitted just before it.
"""

from collections import deque
from dataclasses import dataclass

from labkit.schedule import Handle

SPARE = 1


@dataclass(slots=True)
class Slot:
    """One place of the ring: `copied` and `read` are the last uses of its host and its device buffer."""

    number: int
    copied: tuple[Handle, ...] = ()
    read: tuple[Handle, ...] = ()


class Slots:
    """Slots in the order in which they were given back. As many are made as are ever held at once, plus the spare."""

    def __init__(self) -> None:
        self._free: deque[Slot] = deque()
        self.made = 0

    def take(self) -> Slot:
        """The slot that has been free the longest, or a new one."""
        if len(self._free) > SPARE:
            return self._free.popleft()
        self.made += 1
        return Slot(self.made - 1)

    def give_back(self, slot: Slot, copied: Handle, read: Handle) -> None:
        """The slot may be used again after these two ops."""
        slot.copied, slot.read = (copied,), (read,)
        self._free.append(slot)
