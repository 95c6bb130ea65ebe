"""Requests that wait: who is next, who has waited too long, and who no longer fits in.

Requests of one bucket wait in the order in which they came; a batch is taken from one bucket, so that little of it is padding. Times are
those at which requests were due: the queue knows nothing of when the host got round to them.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from labkit.schedule import Request


class Ticket:
    """A request that was taken in. `bucket` is whom it waits with; times are device time.

    length      what it asks for, in the workload's unit
    expires_ns  when it has waited too long (None: never)
    leaves_ns   when its client hangs up and wants no answer any more (None: never)
    slo_ns      the latency it was promised (0: none)
    """

    __slots__ = ("request", "length", "bucket", "admitted_ns", "expires_ns", "slo_ns", "leaves_ns", "waiting")

    def __init__(
        self, request: Request, length: int, bucket: int, admitted_ns: int, expires_ns: int | None, slo_ns: int, leaves_ns: int | None = None
    ):
        self.request = request
        self.length = length
        self.bucket = bucket
        self.admitted_ns = admitted_ns
        self.expires_ns = expires_ns
        self.slo_ns = slo_ns
        self.leaves_ns = leaves_ns
        self.waiting = True

    @property
    def due_ns(self) -> int:
        """When the request was meant to come."""
        return self.request.due_ns

    @property
    def out_ns(self) -> int | None:
        """When it waits no longer, whoever ends that: the server, or its client."""
        if self.expires_ns is None or self.leaves_ns is None:
            return self.leaves_ns if self.expires_ns is None else self.expires_ns
        return min(self.expires_ns, self.leaves_ns)

    def has_left(self, now_ns: int) -> bool:
        """Whether its client has hung up by now."""
        return self.leaves_ns is not None and self.leaves_ns <= now_ns


class Waiting:
    """The tickets that wait. `len` says how many."""

    def __init__(self) -> None:
        self._buckets: dict[int, deque[Ticket]] = {}
        self._sizes: dict[int, int] = {}
        self._expiring: list[tuple[int, int, Ticket]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, ticket: Ticket) -> None:
        """It waits from now on."""
        queue = self._buckets.get(ticket.bucket)
        if queue is None:
            queue = self._buckets[ticket.bucket] = deque()
            self._sizes[ticket.bucket] = 0
        queue.append(ticket)
        self._sizes[ticket.bucket] += 1
        self._count += 1
        if (out_ns := ticket.out_ns) is not None:
            heappush(self._expiring, (out_ns, ticket.request.id, ticket))

    def oldest(self) -> Ticket | None:
        """The one that was due first; None where none waits."""
        if len(self._buckets) == 1:
            return self._head(next(iter(self._buckets.values())))
        heads = [head for queue in self._buckets.values() if (head := self._head(queue)) is not None]
        return min(heads, key=_due_of) if heads else None

    def size_of(self, bucket: int) -> int:
        """How many wait in this bucket."""
        return self._sizes.get(bucket, 0)

    def fullest(self) -> tuple[int, int]:
        """The bucket in which the most wait, and how many; (0, 0) where none waits."""
        if len(self._sizes) == 1:
            return next(iter(self._sizes.items()))
        return max(self._sizes.items(), key=_size_of, default=(0, 0))

    def take(self, bucket: int, count: int) -> list[Ticket]:
        """The first `count` of this bucket, or as many as there are; they wait no longer."""
        queue, taken = self._buckets[bucket], []
        while len(taken) < count and queue:
            ticket = queue.popleft()
            if ticket.waiting:
                ticket.waiting = False
                taken.append(ticket)
        self._forget(bucket, len(taken))
        return taken

    def expired(self, now_ns: int) -> Iterator[Ticket]:
        """Those that have waited too long by now, or whose client has hung up, each of them once; they wait no longer."""
        while self._expiring and (self._expiring[0][0] <= now_ns or not self._expiring[0][2].waiting):
            ticket = heappop(self._expiring)[2]
            if ticket.waiting:
                self.remove(ticket)
                yield ticket

    @property
    def next_expiry_ns(self) -> int | None:
        """When the next one will have waited too long, or its client hangs up; None for never."""
        while self._expiring and not self._expiring[0][2].waiting:
            heappop(self._expiring)
        return self._expiring[0][0] if self._expiring else None

    def remove(self, ticket: Ticket) -> None:
        """It waits no longer; its place in the queue is passed over."""
        ticket.waiting = False
        self._forget(ticket.bucket, 1)

    def heads(self, bucket: int) -> Iterable[Ticket]:
        """Those that wait in this bucket, the one that was due first before the others."""
        return (ticket for ticket in self._buckets.get(bucket, ()) if ticket.waiting)

    def clear(self) -> list[Ticket]:
        """All that wait, in the order in which they were due; none waits any longer."""
        left = sorted((ticket for queue in self._buckets.values() for ticket in queue if ticket.waiting), key=_due_of)
        for ticket in left:
            self.remove(ticket)
        self._buckets.clear()
        return left

    def _head(self, queue: deque[Ticket]) -> Ticket | None:
        while queue and not queue[0].waiting:
            queue.popleft()
        return queue[0] if queue else None

    def _forget(self, bucket: int, count: int) -> None:
        self._count -= count
        self._sizes[bucket] -= count


def _due_of(ticket: Ticket) -> tuple[int, int]:
    return ticket.request.due_ns, ticket.request.id


def _size_of(entry: tuple[int, int]) -> int:
    return entry[1]
