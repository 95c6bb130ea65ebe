"""Which block lies in which tier, and what has to move when one is looked up or prefetched. No device, no bytes: `tiers.py` makes the moves.

A block is in one place: on the device, in host memory, or on disk alone. What is looked up comes to the device; whoever leaves for it goes to
host memory, and whoever leaves that is dropped, since disk has all of them. With `promote_after` above 1 a block has to be asked for so many
times in host memory before anybody leaves the device for it. (Exclusive tiers: T. Wong and J. Wilkes, "My cache or yours?", USENIX ATC 2002.)
"""

from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from labkit.kernels.eviction import NOBODY, Policy, PolicyName, policy_named
from labkit.workloads.accesses import Accesses
from labkit.workloads.blocks import Tier


class Move(NamedTuple):
    """A block goes from one tier to another. To disk: it is dropped, nothing is written."""

    block: int
    source: Tier
    target: Tier


class Found(NamedTuple):
    """What a lookup found, and what moves for it.

    tier       where the block lay when it was asked for
    foreseen   it had been prefetched, and this is the first lookup of it
    moves      what is dropped to make room, and the block's own, in order
    demotions  what leaves the device for host memory, afterwards: nobody waits for it
    wasted     blocks that leave the device and were prefetched for nothing
    """

    tier: Tier
    foreseen: bool = False
    moves: tuple[Move, ...] = ()
    demotions: tuple[Move, ...] = ()
    wasted: tuple[int, ...] = ()


class Residence:
    """The state of the tiers. `configure` comes first, and before every lookup whose knobs may be others."""

    def __init__(self) -> None:
        self.lookup = -1
        self._accesses: Accesses | None = None
        self._names: tuple[PolicyName, PolicyName] | None = None
        self._capacity = (0, 0)
        self._asked_in_host: dict[int, int] = {}
        self._unused: set[int] = set()
        self._promote_after = 1

    def tier(self, block: int) -> Tier:
        """Where a block lies."""
        return Tier.DEVICE if block in self._device else Tier.HOST if block in self._host else Tier.DISK

    def held(self, tier: Tier) -> int:
        """How many blocks lie on the device, or in host memory."""
        return len(self._device if tier is Tier.DEVICE else self._host)

    @property
    def unused(self) -> int:
        """Blocks on the device that were prefetched and not looked up yet."""
        return len(self._unused)

    def configure(self, knobs: Any, accesses: Accesses) -> Found | None:
        """Take these knobs; what has to leave because the tiers are smaller now, None where nothing has."""
        self._take_policies((knobs.policy, knobs.host_policy), accesses)
        self._promote_after = knobs.promote_after
        capacity = (knobs.device_blocks, knobs.host_blocks)
        if capacity == self._capacity:
            return None
        self._capacity = capacity
        self._device.resize(capacity[0])
        self._host.resize(capacity[1])
        return self._shrink()

    def look_up(self, block: int) -> Found:
        """The next lookup asks for this block."""
        self.lookup += 1
        found = self.tier(block)
        if found is Tier.DEVICE:
            self._device.touch(block)
            foreseen = block in self._unused
            self._unused.discard(block)
            return Found(found, foreseen)
        if self._may_come(block, found):
            return self._bring(block, found, NOBODY)
        self._asked_in_host[block] = self._asked_in_host.get(block, 0) + 1
        if found is Tier.HOST:
            self._host.touch(block)
            return Found(found)
        return Found(found, moves=tuple(self._to_host(block, Tier.DISK)))

    def prefetch(self, block: int, keep: Container[int]) -> Found:
        """Bring a block that is not on the device; none of those to `keep` leaves for it."""
        found = self._bring(block, self.tier(block), keep)
        self._unused.add(block)
        return found

    # ---- moving -------------------------------------------------------------------------------------------

    def _may_come(self, block: int, found: Tier) -> bool:
        """Whether the block that is looked up comes to the device, or is looked up in passing."""
        if self._promote_after == 1 or len(self._device) < self._capacity[0]:
            return True
        if self._names is not None and self._names[0] == "belady":
            return self._device.prefers(block)
        return self._asked_in_host.get(block, 0) + 1 >= self._promote_after or (found is Tier.DISK and self._capacity[1] == 0)

    def _bring(self, block: int, found: Tier, keep: Container[int]) -> Found:
        """To the device. Whoever is dropped goes first, then this one comes, then whoever leaves for it goes to host memory."""
        if found is Tier.HOST:
            self._host.remove(block)
            self._asked_in_host.pop(block, None)
        leaving, wasted = self._make_room(self._capacity[0] - 1, keep)
        self._device.insert(block)
        dropped = tuple(move for move in leaving if move.target is Tier.DISK)
        demoted = tuple(move for move in leaving if move.target is Tier.HOST)
        return Found(found, False, (*dropped, Move(block, found, Tier.DEVICE)), demoted, wasted)

    def _make_room(self, most: int, keep: Container[int]) -> tuple[list[Move], tuple[int, ...]]:
        """Let blocks leave the device until it holds no more than `most`."""
        moves, wasted = [], []
        while len(self._device) > most:
            victim = self._device.victim(keep)
            if victim in self._unused:
                self._unused.remove(victim)
                wasted.append(victim)
            moves += self._to_host(victim, Tier.DEVICE)
        return moves, tuple(wasted)

    def _to_host(self, block: int, source: Tier) -> list[Move]:
        """Into host memory, if there is room or somebody leaves who is wanted less; else it is dropped."""
        capacity, moves = self._capacity[1], []
        full = len(self._host) >= capacity
        if capacity == 0 or (full and not self._host.prefers(block)):
            self._asked_in_host.pop(block, None)
            return [Move(block, source, Tier.DISK)] if source is not Tier.DISK else []
        if full:
            moves.append(self._drop())
        self._host.insert(block)
        return [*moves, Move(block, source, Tier.HOST)]

    def _drop(self) -> Move:
        victim = self._host.victim()
        self._asked_in_host.pop(victim, None)
        return Move(victim, Tier.HOST, Tier.DISK)

    def _shrink(self) -> Found | None:
        """What leaves tiers that hold more than they may."""
        moves: list[Move] = []
        while len(self._host) > self._capacity[1]:
            moves.append(self._drop())
        leaving, wasted = self._make_room(self._capacity[0], NOBODY)
        moves += leaving
        return Found(Tier.DISK, moves=tuple(moves), wasted=wasted) if moves else None

    # ---- policies -----------------------------------------------------------------------------------------

    def _take_policies(self, names: tuple[PolicyName, PolicyName], accesses: Accesses) -> None:
        """Others where they have other names, or know another future; they take over the blocks in the order in which they would have left."""
        other_future = accesses is not self._accesses
        self._accesses = accesses
        if self._names is None:
            self._device, self._host = (self._policy(name, 0, ()) for name in names)
        else:
            if names[0] != self._names[0] or (other_future and names[0] == "belady"):
                self._device = self._policy(names[0], self._capacity[0], self._device.blocks())
            if names[1] != self._names[1] or (other_future and names[1] == "belady"):
                self._host = self._policy(names[1], self._capacity[1], self._host.blocks())
        self._names = names

    def _policy(self, name: PolicyName, capacity: int, blocks: Iterable[int]) -> Policy:
        made = policy_named(name, capacity, self._next_use)
        for block in blocks:
            made.insert(block)
        return made

    def _next_use(self, block: int) -> int:
        assert self._accesses is not None
        return self._accesses.next_use(block, self.lookup)
