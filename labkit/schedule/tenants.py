"""A tenant: one of several users of a server, what it is promised, and how its requests come."""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.schedule.arrivals import OpenLoop, Shape
from labkit.schedule.requests import Request

TENANT_SEED = 7919


@dataclass(frozen=True)
class Tenant:
    """One user.

    weight    its share is weight ÷ the sum of all weights
    priority  the larger, the more urgent
    rate      requests per second, on average; arrivals: how they come
    deadline_ms, slo_ms, patience_ms  of its requests; None: what the knobs say
    batchable_with  the tenants whose requests may share a batch with its own; itself is always among them
    """

    name: str
    weight: float
    priority: int
    rate: float
    arrivals: Shape
    deadline_ms: float | None
    slo_ms: float | None
    patience_ms: float | None
    batchable_with: frozenset[str]


class TenantArrivals:
    """The open loops of several tenants as one: numbered in the order in which they are due; each has a seed of its own, so that one's arrivals
    do not depend on who else there is.

    rate, shape  for all of them together, over what each says; None: as each says
    """

    def __init__(self, tenants: Sequence[Tenant], rate: float | None, shape: Shape | None, seed: int):
        self._tenants = tuple(tenants)
        settings = self._settings(rate, shape)
        self._loops = [OpenLoop(each_rate, each_shape, seed + TENANT_SEED * place, place) for place, (each_rate, each_shape) in enumerate(settings)]
        self._number = 0
        self.next_ns: int | None = min((loop.next_ns for loop in self._loops if loop.next_ns is not None), default=None)

    def take(self, now_ns: int) -> list[Request]:
        """The requests that are due by now, in order, each of them once."""
        taken = sorted((request.due_ns, request.tenant) for loop in self._loops for request in loop.take(now_ns))
        self.next_ns = min((loop.next_ns for loop in self._loops if loop.next_ns is not None), default=None)
        first, self._number = self._number, self._number + len(taken)
        return [Request(first + place, due_ns, tenant) for place, (due_ns, tenant) in enumerate(taken)]

    def turn(self, now_ns: int, rate: float | None, shape: Shape | None) -> None:
        """From now on come at this rate in all, in this shape; None: as each tenant says."""
        for loop, (each_rate, each_shape) in zip(self._loops, self._settings(rate, shape), strict=True):
            loop.turn(now_ns, each_rate, each_shape)
        self.next_ns = min((loop.next_ns for loop in self._loops if loop.next_ns is not None), default=None)

    def _settings(self, rate: float | None, shape: Shape | None) -> list[tuple[float, Shape]]:
        whole = sum(tenant.rate for tenant in self._tenants)
        factor = 1.0 if rate is None else rate / whole
        return [(tenant.rate * factor, shape or tenant.arrivals) for tenant in self._tenants]
