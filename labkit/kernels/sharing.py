"""Several tenants on one device: the batching server with a queue for each tenant, and a discipline that says whose turn it is.

Whose turn it is asks the batching policy whether to send a batch of its requests now. Where there is room, requests of tenants that may share a
batch with all who are in it fill it up, the most entitled first. Each tenant has a queue of its own with a limit of its own, so that a flood
of one does not turn the others away.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from labkit.device.device import Device
from labkit.kernels.batching import Sent, Server
from labkit.kernels.disciplines import DISCIPLINES, Book
from labkit.kernels.policies import POLICIES
from labkit.kernels.waiting import Ticket, Waiting
from labkit.schedule import Answer, Request, Steps
from labkit.schedule.tenants import Tenant
from labkit.units import NS_PER_MS
from labkit.workloads.workload import ServingWorkload

UNKNOWN_NS = 1_000_000
"""What a request is taken to cost while none has been served."""


class SharedWorkload(ServingWorkload, Protocol):
    """A workload with the tenants whose requests it serves; a request's `tenant` is a place among them."""

    tenants: Sequence[Tenant]


def sharing(device: Device, workload: SharedWorkload, steps: Steps) -> None:
    """Serve what comes until no more will."""
    SharedServer(device, workload, steps).serve()


class Queues(Waiting):
    """A queue for each tenant, and all of them as one."""

    def __init__(self, tenants: int):
        super().__init__()
        self.of = [Waiting() for _ in range(tenants)]

    def __len__(self) -> int:
        return sum(map(len, self.of))

    def add(self, ticket: Ticket) -> None:
        """It waits in its tenant's queue."""
        self.of[ticket.request.tenant].add(ticket)

    def oldest(self) -> Ticket | None:
        """The one that was due first, of all."""
        return min(self.heads_of_all().values(), key=lambda ticket: (ticket.request.due_ns, ticket.request.id), default=None)

    def heads_of_all(self) -> dict[int, Ticket]:
        """Tenant → the oldest of its requests, of those who have any."""
        return {place: oldest for place, queue in enumerate(self.of) if (oldest := queue.oldest()) is not None}

    def expired(self, now_ns: int) -> Iterator[Ticket]:
        """Those of any tenant that have waited too long."""
        return chain.from_iterable(queue.expired(now_ns) for queue in self.of)

    @property
    def next_expiry_ns(self) -> int | None:
        """When the next one of any tenant will have."""
        return min((at_ns for queue in self.of if (at_ns := queue.next_expiry_ns) is not None), default=None)

    def remove(self, ticket: Ticket) -> None:
        """It waits no longer."""
        self.of[ticket.request.tenant].remove(ticket)

    def clear(self) -> list[Ticket]:
        """All that wait, in the order in which they were due."""
        return sorted(chain.from_iterable(queue.clear() for queue in self.of), key=lambda ticket: (ticket.request.due_ns, ticket.request.id))


class _Sight(Waiting):
    """A tenant's queue as a batching policy sees it: those who could fill up its batch count as well."""

    def __init__(self, own: Waiting, companions: Iterable[Waiting]):
        super().__init__()
        self._own, self._all = own, [own, *companions]

    def oldest(self) -> Ticket | None:
        return self._own.oldest()

    def size_of(self, bucket: int) -> int:
        return sum(queue.size_of(bucket) for queue in self._all)

    def fullest(self) -> tuple[int, int]:
        bucket, _ = self._own.fullest()
        return bucket, self.size_of(bucket)

    def heads(self, bucket: int) -> Iterable[Ticket]:
        return self._own.heads(bucket)


class SharedServer(Server):
    """A server whose requests have tenants."""

    _waiting: Queues
    _workload: SharedWorkload

    def __init__(self, device: Device, workload: SharedWorkload, steps: Steps):
        super().__init__(device, workload, steps)
        self._tenants = workload.tenants
        self._waiting = Queues(len(self._tenants))
        self._book = Book([each.weight for each in self._tenants], [each.priority for each in self._tenants])
        self._charged: dict[int, dict[int, float]] = {}
        self._share = ""
        device.recorder.meta["tenants"] = [{"name": each.name, "weight": each.weight, "priority": each.priority} for each in self._tenants]

    # ---- taking in ----------------------------------------------------------------------------------------

    def _admit(self, request: Request, now_ns: int) -> None:
        knobs, tenant = self._steps.knobs, self._tenants[request.tenant]
        length = self._workload.length(request)
        bucket = length.bit_length() if knobs.bucket_by_length else 0
        expires_ns, leaves_ns = (
            _after(request.due_ns, own if own is not None else common)
            for own, common in ((tenant.deadline_ms, knobs.deadline), (tenant.patience_ms, knobs.patience))
        )
        slo_ms = tenant.slo_ms if tenant.slo_ms is not None else knobs.slo
        ticket = Ticket(request, length, bucket, now_ns, expires_ns, 0 if slo_ms is None else int(slo_ms * NS_PER_MS), leaves_ns)
        queue = self._waiting.of[request.tenant]
        if len(queue) >= knobs.queue_limit:
            self._record(ticket, Answer.REJECTED, now_ns)
        else:
            self._book.arrived(request.tenant, alone=not len(queue))
            queue.add(ticket)

    # ---- sending ------------------------------------------------------------------------------------------

    def _send(self) -> int | None:
        """Send what the discipline and the policy want sent; when they want to be asked again."""
        knobs = self._steps.knobs
        period_ns = int(knobs.period * NS_PER_MS)
        if knobs.share != self._share:
            self._share = knobs.share
            self._book.begin_anew(self._device.now())
        if knobs.share == "elastic":
            self._book.move_shares(self._device.now(), period_ns, [len(queue) for queue in self._waiting.of])
        while len(self._waiting) and len(self._running) < knobs.in_flight:
            now_ns = self._device.now()
            turn = DISCIPLINES[knobs.share](self._book, self._waiting.heads_of_all(), now_ns, knobs, not self._running)
            asks = [turn.later_ns] if turn.later_ns is not None else []
            for tenant in turn.order:
                companions = [other for other in turn.order if other != tenant and self._may_share(other, [tenant])]
                sight = _Sight(self._waiting.of[tenant], [self._waiting.of[other] for other in companions])
                send = POLICIES[knobs.policy](sight, now_ns, knobs, len(self._running), self._times)
                if send.count:
                    self._start_for(tenant, companions, send.bucket, min(send.count, knobs.max_batch), now_ns, period_ns)
                    break
                if send.ask_ns is not None:
                    asks.append(send.ask_ns)
            else:
                return min(asks, default=None)
        return None

    def _start_for(self, tenant: int, companions: Sequence[int], bucket: int, count: int, now_ns: int, period_ns: int) -> None:
        """A batch of this tenant's requests, filled up by those who may share it with everybody in it."""
        tickets, members = self._waiting.of[tenant].take(bucket, count), [tenant]
        for other in companions:
            if len(tickets) < count and self._waiting.of[other].size_of(bucket) and self._may_share(other, members):
                tickets += self._waiting.of[other].take(bucket, count - len(tickets))
                members.append(other)
        expected_ns = self._times.expected_ns(len(tickets)) if self._times.known else float(UNKNOWN_NS * len(tickets))
        parts = _parts(tickets, expected_ns)
        self._book.sent(tenant, parts, now_ns, period_ns)
        self._start(tickets)
        self._charged[self._running[-1].step.index] = parts

    def _may_share(self, tenant: int, members: Iterable[int]) -> bool:
        name = self._tenants[tenant].name
        return all(name in self._tenants[member].batchable_with for member in members)

    # ---- answering ----------------------------------------------------------------------------------------

    def _learn(self, sent: Sent, took_ns: int) -> None:
        super()._learn(sent, took_ns)
        expected = self._charged.pop(sent.step.index, {})
        real = _parts(sent.tickets, took_ns)
        self._book.corrected({tenant: part_ns - expected.get(tenant, 0.0) for tenant, part_ns in real.items()})


    def _failure(self, sent: Sent) -> Answer:
        self._charged.pop(sent.step.index, None)  # the device was kept busy for it all the same: what was charged stays
        return super()._failure(sent)


def _parts(tickets: Sequence[Ticket], ns: float) -> dict[int, float]:
    """What of the time of a batch is whose."""
    parts: dict[int, float] = {}
    for ticket in tickets:
        parts[ticket.request.tenant] = parts.get(ticket.request.tenant, 0.0) + ns / len(tickets)
    return parts


def _after(due_ns: int, ms: float | None) -> int | None:
    return None if ms is None else due_ns + int(ms * NS_PER_MS)
