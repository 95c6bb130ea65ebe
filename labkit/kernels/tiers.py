"""Lookups in a table that lies in three tiers: device memory, host memory, disk. Blocks come up when they are asked for, or when somebody foresees it.

A lookup finds its block on the device, or has it copied from host memory, or read from disk before that. What lies where is decided beforehand, on
the host (`residence.py`), whatever the time: hits are the same on every device, and only how long they take differs. A buffer is written again
after its last readers, said as dependencies. Lookups are answered in order. A prefetch goes behind the lookup that gave rise to it; where more are on
their way than may be, the next ones wait for the oldest.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from labkit.device.device import Device
from labkit.kernels.places import Place, Places
from labkit.kernels.prefetching import Prefetcher, prefetcher_named
from labkit.kernels.residence import Found, Move, Residence
from labkit.schedule import Handle, Status, Step, Steps
from labkit.workloads.accesses import Accesses
from labkit.workloads.blocks import BlockWorkload, Looked, Tier


class Asked(NamedTuple):
    """A lookup on its way. `arrived` is the op that brought its block to where it was looked up."""

    step: Step
    lookup: int
    block: int
    found: Found
    issued_ns: int
    arrived: Handle
    desk: int
    answer: Handle


def tiers(device: Device, workload: BlockWorkload, steps: Iterable[Step]) -> None:
    """Look up a block in each step, for as long as there are steps."""
    workload.count_from(steps.budget.warmup if isinstance(steps, Steps) else 0)
    lookups = Lookups(device, workload)
    for step in steps:
        lookups.take_knobs(step)
        lookups.look_up(step)
        lookups.prefetch(step)
        lookups.finish_all_but(step.knobs.in_flight - 1)
    lookups.finish_all_but(0)


class Lookups:
    """What lies in the tiers and what is on its way, between two lookups."""

    _accesses: Accesses
    _prefetcher: Prefetcher

    def __init__(self, device: Device, workload: BlockWorkload):
        self._device, self._workload = device, workload
        self.residence = Residence()
        self._places = {Tier.DEVICE: Places(), Tier.HOST: Places()}
        self._most = {Tier.DEVICE: 0, Tier.HOST: 0}
        self._prefetcher_name = ""
        self._running: deque[Asked] = deque()
        self._coming: deque[Handle] = deque()
        self._desks: list[int] = []
        self._desks_made = 0

    # ---- a step -------------------------------------------------------------------------------------------

    def take_knobs(self, step: Step) -> None:
        """Other sizes, policies, prefetchers and patterns act from here on."""
        knobs = step.knobs
        self._accesses = self._workload.accesses(knobs)
        if knobs.prefetch != self._prefetcher_name:
            self._prefetcher_name = knobs.prefetch
            self._prefetcher = prefetcher_named(knobs.prefetch, lambda count: self._accesses.coming(self.residence.lookup, count))
        leaving = self.residence.configure(knobs, self._accesses)
        if leaving is not None:
            self._carry_out(step, leaving)
        self._most = {Tier.DEVICE: knobs.device_blocks + knobs.staging, Tier.HOST: knobs.host_blocks + knobs.staging}
        for tier, places in self._places.items():
            if places.count > self._most[tier]:
                self._let_go(tier)

    def look_up(self, step: Step) -> None:
        """The next lookup of the sequence: bring its block if need be, take its rows, then let others leave."""
        issued_ns = self._device.now()
        block = self._accesses.at(self.residence.lookup + 1)
        self._prefetcher.observe(block)
        found = self.residence.look_up(block)
        for move in found.moves:
            self._move(step, move)
        place = self._places[Tier.DEVICE].of.get(block)
        passing = place is None
        if place is None:
            place = self._bring_in_passing(step, block)
        assert place.arrived is not None
        self._running.append(self._ask(step, block, found, place, place.arrived, issued_ns))
        if passing:
            self._places[Tier.DEVICE].give_back(place)
        self._carry_out(step, found._replace(moves=()))

    def prefetch(self, step: Step) -> None:
        """Bring what is foreseen. What it foresees, and what is being looked up, does not leave the device for it."""
        depth = min(step.knobs.depth, step.knobs.device_blocks - 1)
        looked_up = self._accesses.at(self.residence.lookup)
        ahead = [block for block in self._prefetcher.ahead(depth) if 0 <= block < step.knobs.blocks][:depth]
        keep = {looked_up, *ahead}
        for block in ahead:
            if self.residence.tier(block) is not Tier.DEVICE:
                while len(self._coming) >= step.knobs.prefetch_queue:
                    self._device.wait([self._coming.popleft()])
                self._carry_out(step, self.residence.prefetch(block, keep))
                self._workload.prefetched(step, block)
                self._coming.extend(self._places[Tier.DEVICE].of[block].written)

    def finish_all_but(self, count: int) -> None:
        """Wait for the oldest lookups until no more than `count` are on their way."""
        while len(self._running) > count:
            asked = self._running.popleft()
            if self._device.wait([asked.answer]) and asked.answer.status is not Status.CANCELLED:
                self._answered(asked)
            self._desks.append(asked.desk)

    # ---- asking and answering -----------------------------------------------------------------------------

    def _ask(self, step: Step, block: int, found: Found, place: Place, arrived: Handle, issued_ns: int) -> Asked:
        desk = self._desk()
        take, *others = self._workload.look_up(step, block, found.tier, place.number, desk)
        answer = self._device.submit(take, after=place.written)
        place.read(take.lane, answer)
        for op in others:
            answer = self._device.submit(op, answer)
        return Asked(step, self.residence.lookup, block, found, issued_ns, arrived, desk, answer)

    def _answered(self, asked: Asked) -> None:
        found, done_ns = asked.found, asked.answer.end_ns
        on_its_way = found.tier is Tier.DEVICE and asked.arrived.end_ns > asked.issued_ns
        looked = Looked(asked.lookup, asked.block, found.tier, on_its_way, found.foreseen, asked.issued_ns, done_ns)
        self._workload.answered(asked.step, looked, asked.answer)

    def _desk(self) -> int:
        """A desk whose last answer has been taken away."""
        if self._desks:
            return self._desks.pop()
        self._desks_made += 1
        return self._desks_made - 1

    # ---- moving -------------------------------------------------------------------------------------------

    def _carry_out(self, step: Step, found: Found) -> None:
        for move in (*found.moves, *found.demotions):
            self._move(step, move)
        for block in found.wasted:
            self._workload.wasted(step, block)

    def _move(self, step: Step, move: Move) -> None:
        """Submit what a move takes. To disk it takes nothing."""
        block = move.block
        if move.target is Tier.DISK:
            self._give_back(move.source, block)
        elif move.target is Tier.DEVICE:
            host_place = self._read(step, block) if move.source is Tier.DISK else self._places[Tier.HOST].of.pop(block)
            self._places[Tier.DEVICE].of[block] = self._promote(step, block, move.source, host_place)
            self._places[Tier.HOST].give_back(host_place)
        elif move.source is Tier.DISK:
            self._places[Tier.HOST].of[block] = self._read(step, block)
        else:
            self._demote(step, block)

    def _bring_in_passing(self, step: Step, block: int) -> Place:
        """A block that does not stay on the device, from host memory or, if it does not stay there either, from disk."""
        staying = self._places[Tier.HOST].of.get(block)
        host_place = self._read(step, block) if staying is None else staying
        place = self._promote(step, block, Tier.HOST if staying else Tier.DISK, host_place)
        if staying is None:
            self._places[Tier.HOST].give_back(host_place)
        return place

    def _read(self, step: Step, block: int) -> Place:
        place = self._places[Tier.HOST].take(self._most[Tier.HOST])
        place.write(self._device.submit(self._workload.read(step, block, place.number), after=place.users))
        return place

    def _promote(self, step: Step, block: int, source: Tier, host_place: Place) -> Place:
        place = self._places[Tier.DEVICE].take(self._most[Tier.DEVICE])
        op = self._workload.promote(step, block, source, host_place.number, place.number)
        copied = self._device.submit(op, after=(*host_place.written, *place.users))
        host_place.read(op.lane, copied)
        place.write(copied)
        return place

    def _demote(self, step: Step, block: int) -> None:
        place, host_place = self._places[Tier.DEVICE].of.pop(block), self._places[Tier.HOST].take(self._most[Tier.HOST])
        op = self._workload.demote(step, block, place.number, host_place.number)
        copied = self._device.submit(op, after=(*place.written, *host_place.users))
        place.read(op.lane, copied)
        host_place.write(copied)
        self._places[Tier.HOST].of[block] = host_place
        self._places[Tier.DEVICE].give_back(place)

    def _give_back(self, tier: Tier, block: int) -> None:
        self._places[tier].give_back(self._places[tier].of.pop(block))

    def _let_go(self, tier: Tier) -> None:
        """Drop the memory of places that are too many, once nobody uses them."""
        for place in self._places[tier].surplus(self._most[tier]):
            for handle in place.users:
                self._device.wait([handle])
            self._workload.drop(tier, place.number)
