"""Who is served next, where several tenants wait: disciplines.

A discipline sees each tenant's account and oldest request, and says who may send now, the most entitled first, and when somebody else may.

    fifo      whose oldest request was due first
    priority  the highest priority; every `ageing` that its oldest request has waited makes a tenant's priority one higher
    wfq       weighted fair queueing: whoever has had the least service for its weight. An idle tenant saves nothing up (start-time fair
              queueing; P. Goyal, H. Vin and H. Cheng, SIGCOMM 1996)
    static    each tenant has its share of the device's time and nobody else may use it: after a batch a tenant waits until its share has paid
              for it, up to `period` saved up beforehand
    elastic   the same, but the shares move every `period` towards those who need more, and what nobody claims is lent

Service is the time that a batch takes the device, charged to each tenant by its part of the batch: as expected when it is sent, corrected when
it is done. A batch that is being served is never taken back, so nobody's wait is shorter than what is left of one.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from labkit.kernels.waiting import Ticket
from labkit.units import NS_PER_MS

FLOOR = 0.25
"""Of its share by weight, what an elastic partition leaves a tenant."""
STEP = 0.1
"""Of the whole, what moves from a tenant in one period."""
BUSY, IDLE = 0.9, 0.5
_LATEST_NS = 1 << 62


class Account:
    """What a tenant has had, and may have.

    fair      its share by weight; share: what it has now
    virtual   service for its weight, in ns (wfq)
    free_ns   when it may send again (static, elastic)
    used_ns   service in the present period
    """

    __slots__ = ("place", "priority", "fair", "share", "virtual", "free_ns", "used_ns")

    def __init__(self, place: int, priority: int, fair: float):
        self.place, self.priority, self.fair, self.share = place, priority, fair, fair
        self.virtual = self.used_ns = 0.0
        self.free_ns = 0


class Turn(NamedTuple):
    """Who may send now, in this order, and when somebody else may (None: when something happens)."""

    order: list[int]
    later_ns: int | None = None


class Book:
    """The accounts of all tenants."""

    def __init__(self, weights: Sequence[float], priorities: Sequence[int]):
        whole = math.fsum(weights)
        self.accounts = [Account(place, priority, weight / whole) for place, (weight, priority) in enumerate(zip(weights, priorities, strict=True))]
        self._now_virtual = 0.0
        self._period_began_ns = 0

    def arrived(self, place: int, alone: bool) -> None:
        """A request came; `alone`: nobody of this tenant waited. Whoever was idle begins where the others are."""
        if alone:
            account = self.accounts[place]
            account.virtual = max(account.virtual, self._now_virtual)

    def sent(self, chosen: int, parts_ns: dict[int, float], now_ns: int, period_ns: int) -> None:
        """A batch goes, for which each tenant is charged so much; `chosen` had the turn."""
        self._now_virtual = max(self._now_virtual, self.accounts[chosen].virtual)
        for place in parts_ns:
            account = self.accounts[place]
            account.free_ns = max(account.free_ns, now_ns - period_ns)
        self.corrected(parts_ns)

    def corrected(self, parts_ns: dict[int, float]) -> None:
        """Charge more, or less where negative."""
        for place, part_ns in parts_ns.items():
            account = self.accounts[place]
            account.virtual += part_ns / account.fair
            account.free_ns = min(account.free_ns + math.ceil(min(part_ns / account.share, _LATEST_NS)), _LATEST_NS)
            account.used_ns += part_ns

    def move_shares(self, now_ns: int, period_ns: int, waiting: Sequence[int]) -> None:
        """At the end of a period: shares go from those who use less than half of theirs to those who use all of it and want more."""
        if period_ns <= 0 or now_ns - self._period_began_ns < period_ns:
            return
        length_ns, self._period_began_ns = now_ns - self._period_began_ns, now_ns
        used = [account.used_ns / length_ns for account in self.accounts]
        needing = [each for each, had in zip(self.accounts, used, strict=True) if waiting[each.place] and had >= BUSY * each.share]
        short = [each for each in needing if each.share < each.fair]
        giving = [each for each, had in zip(self.accounts, used, strict=True) if not waiting[each.place] and had < IDLE * each.share]
        if short:
            giving += [each for each in self.accounts if each.share > each.fair and each not in giving]
        taking = short or [each for each in needing if each not in giving]
        if taking:
            moved = 0.0
            for each in giving:
                least = each.fair if waiting[each.place] else FLOOR * each.fair
                part = max(min(STEP, each.share - least), 0.0)
                each.share -= part
                moved += part
            for each in taking:
                each.share += moved / len(taking)
        for account in self.accounts:
            account.used_ns = 0.0
            account.free_ns = min(account.free_ns, now_ns + period_ns)

    def begin_anew(self, now_ns: int) -> None:
        """Under another discipline nobody is owed anything for what was before, and every tenant has its share by weight."""
        self._now_virtual, self._period_began_ns = 0.0, now_ns
        for account in self.accounts:
            account.virtual = account.used_ns = 0.0
            account.free_ns, account.share = now_ns, account.fair


def fifo(book: Book, heads: dict[int, Ticket], now_ns: int, knobs: Any, idle: bool) -> Turn:
    """Whose oldest was due first."""
    return Turn(sorted(heads, key=lambda place: _due(heads[place])))


def priority(book: Book, heads: dict[int, Ticket], now_ns: int, knobs: Any, idle: bool) -> Turn:
    """The highest priority, with what its oldest has gained by waiting."""
    ageing_ns = None if knobs.ageing is None else knobs.ageing * NS_PER_MS

    def urgency(place: int) -> float:
        gained = 0.0 if not ageing_ns else (now_ns - heads[place].due_ns) / ageing_ns
        return -(book.accounts[place].priority + gained)

    return Turn(sorted(heads, key=lambda place: (urgency(place), _due(heads[place]))))


def wfq(book: Book, heads: dict[int, Ticket], now_ns: int, knobs: Any, idle: bool) -> Turn:
    """Whoever has had the least service for its weight."""
    return Turn(sorted(heads, key=lambda place: (book.accounts[place].virtual, _due(heads[place]))))


def static(book: Book, heads: dict[int, Ticket], now_ns: int, knobs: Any, idle: bool) -> Turn:
    """Those whose share has paid for what they had; nobody else, and if the device has nothing to do."""
    paid = [place for place in heads if book.accounts[place].free_ns <= now_ns]
    owing = [book.accounts[place].free_ns for place in heads if book.accounts[place].free_ns > now_ns]
    return Turn(sorted(paid, key=lambda place: (book.accounts[place].free_ns, _due(heads[place]))), min(owing, default=None))


def elastic(book: Book, heads: dict[int, Ticket], now_ns: int, knobs: Any, idle: bool) -> Turn:
    """As static; but where the device has nothing to do, whoever comes next may go."""
    turn = static(book, heads, now_ns, knobs, idle)
    if turn.order or not idle:
        return turn
    return Turn(sorted(heads, key=lambda place: (book.accounts[place].free_ns, _due(heads[place]))))


Discipline = Callable[[Book, dict[int, Ticket], int, Any, bool], Turn]
DISCIPLINES: dict[str, Discipline] = {"fifo": fifo, "priority": priority, "wfq": wfq, "static": static, "elastic": elastic}


def _due(ticket: Ticket) -> tuple[int, int]:
    return ticket.request.due_ns, ticket.request.id
