"""Several tenants on the virtual clock: requests at given times, each with a tenant, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit.device.simulated import SimulatedDevice
from labkit.experiments.tenants import TenantsKnobs
from labkit.kernels.sharing import sharing
from labkit.metrics.fairness import Fairness, fairness
from labkit.schedule import Budget, Steps
from labkit.schedule.arrivals import Arrivals, Replay
from labkit.schedule.tenants import Tenant
from labkit.trace import Recorder
from tests.device.conftest import machine_of
from tests.kernels.serving import MS, Model, Served


class Shared(Served):
    """As `Served`, with the tenants."""

    tenants: Sequence[Tenant]

    @property
    def tenant_of(self) -> list[int]:
        return self.column("tenant")

    @property
    def batches_by_tenant(self) -> list[list[int]]:
        """Of each batch, whose its requests are."""
        whose = self.tenant_of
        return [[whose[request] for request in batch] for batch in self.batches]

    def served_of(self, until_ms: float) -> list[int]:
        """How many requests of each tenant were done by then."""
        done = [(tenant, at) for tenant, at, step in zip(self.tenant_of, self.column("done_ns"), self.column("step"), strict=True) if step >= 0]
        return [sum(tenant == place and at <= until_ms * MS for tenant, at in done) for place in range(len(self.tenants))]

    def fairness(self) -> Fairness:
        columns = self.trace.requests
        found = fairness(self.trace, columns, int(columns["due_ns"].max() - columns["due_ns"].min()))
        assert found is not None
        return found


def tenant(name: str, weight: float = 1.0, priority: int = 0, **more: Any) -> Tenant:
    known = {"rate": 1.0, "arrivals": "poisson", "deadline_ms": None, "slo_ms": None, "patience_ms": None, "batchable_with": frozenset("ABCDEFGH")}
    return Tenant(name=name, weight=weight, priority=priority, **{**known, **more})


def serve_tenants(
    tenants: Sequence[Tenant],
    requests: Sequence[tuple[float, int]] | Arrivals,
    takes_ms: Callable[[int], float] = lambda n: 10.0,
    *,
    fails: Sequence[int] = (),
    changes: Callable[[int], TenantsKnobs | None] = lambda now_ns: None,
    budget: Budget | None = None,
    **knobs: Any,
) -> Shared:
    """Serve requests, given as (due in ms, tenant) in order of time."""
    arrivals: Any = requests
    if isinstance(requests, Sequence):
        arrivals = Replay([round(ms * MS) for ms, _ in requests], [place for _, place in requests])
    settings = TenantsKnobs.parse({"model": "fixed", "slo": None, "policy": "none", "in_flight": 1, "queue_limit": 100_000, **knobs})
    device = SimulatedDevice(machine_of("cpu"), recorder=Recorder())
    model = Model(takes_ms, fails=fails)
    model.tenants = tenants  # type: ignore[attr-defined]
    steps = Steps(settings, budget or Budget(steps=10**6, warmup=0), device.now, changes=lambda: changes(device.now()), arrivals=arrivals)
    sharing(device, model, steps)
    assert device.close() == []
    return Shared(trace=device.recorder.finish(device.now()), batches=model.batches, answered=model.answered_ids, tenants=tenants)


def flood(each: Sequence[int], until_ms: float = 0.0) -> list[tuple[float, int]]:
    """So many requests of each tenant, all due at the beginning, or spread evenly until then."""
    due = [(until_ms * number / count if until_ms else 0.0, place) for place, count in enumerate(each) for number in range(count)]
    return sorted(due)


def rows_of(shared: Shared, place: int, column: str) -> np.ndarray:
    columns = shared.trace.requests
    return columns[column][columns["tenant"] == place]
