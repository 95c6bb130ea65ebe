"""What a kernel that looks things up in tiers asks of its workload: blocks that can be read, copied both ways, and looked up in.

A *place* is a buffer for one block, in host memory or on the device; the kernel says which. A *desk* is a small host buffer for one answer.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from labkit.schedule import Handle, Op, Step
from labkit.workloads.accesses import Accesses


class Tier(IntEnum):
    """Where a block lies: in exactly one of them, and on disk always."""

    DEVICE = 0
    HOST = 1
    DISK = 2


class Looked(NamedTuple):
    """A lookup that has been answered.

    tier       where its block lay when it came
    on_its_way that was the device, and the block had not arrived yet
    foreseen   it was the first to ask for a block that had been prefetched
    issued_ns, done_ns  device time, from the host's turning to it to the answer in host memory
    """

    lookup: int
    block: int
    tier: Tier
    on_its_way: bool
    foreseen: bool
    issued_ns: int
    done_ns: int


class BlockWorkload(Protocol):
    """A table of blocks of one size."""

    def count_from(self, step_index: int) -> None:
        """What belongs to earlier steps is warm-up, and not counted."""
        ...

    def accesses(self, knobs: Any) -> Accesses:
        """Which block each lookup asks for; the same object for as long as these knobs ask for the same."""
        ...

    def read(self, step: Step, block: int, place: int) -> Op:
        """Read a block from disk into a place in host memory."""
        ...

    def promote(self, step: Step, block: int, source: Tier, host_place: int, place: int) -> Op:
        """Copy a block from a place in host memory to the device. `source` is disk where it is read into that place first: such copies have a lane of
        their own, so that no other one waits for a read."""
        ...

    def demote(self, step: Step, block: int, place: int, host_place: int) -> Op:
        """Copy a block from the device to host memory."""
        ...

    def look_up(self, step: Step, block: int, tier: Tier, place: int, desk: int) -> Sequence[Op]:
        """Take rows out of a block on the device, and bring them to a desk in host memory: the reader of the place, and what is fed by it; the last
        completes the lookup. `tier` is where the block was found."""
        ...

    def prefetched(self, step: Step, block: int) -> None:
        """A block comes to the device that nobody has asked for yet."""
        ...

    def wasted(self, step: Step, block: int) -> None:
        """A block that was prefetched leaves the device, and nobody has asked for it."""
        ...

    def answered(self, step: Step, looked: Looked, answer: Handle) -> None:
        """The host has the answer."""
        ...

    def drop(self, tier: Tier, place: int) -> None:
        """Let go of the memory of a place, which nobody uses any more."""
        ...
