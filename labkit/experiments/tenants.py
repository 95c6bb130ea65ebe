"""Several tenants: who gets what of one device, and how is each protected from the others?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from labkit.experiments.batching import BatchingKnobs, widths
from labkit.experiments.batching import prepare as prepare_server
from labkit.experiments.experiment import Experiment
from labkit.experiments.tenants_file import read_tenants, tenants_of
from labkit.kernels.sharing import sharing
from labkit.knobs import knob
from labkit.schedule.arrivals import Arrivals, Shape
from labkit.schedule.tenants import Tenant, TenantArrivals

EXAMPLE: list[dict[str, Any]] = [
    {"name": "interactive", "weight": 2, "priority": 2, "rate": 15, "slo": 50},
    {"name": "reports", "weight": 1, "priority": 1, "rate": 20, "slo": 200},
    {"name": "backfill", "weight": 1, "priority": 0, "rate": 40, "arrivals": "bursty", "slo": 2000},
]
"""The tenants where no file names any."""


class TenantsKnobs(BatchingKnobs):
    """The knobs of a server that several tenants share: those of `batching`, and how it is shared. What `tenants.yaml` says of a tenant goes before the
    knobs; `queue_limit` is each tenant's own."""

    rate: float | None = knob(None, "requests of all tenants that come per second, on average; none: as the file says", unit="requests/s", ge=0.01, le=1_000_000)  # type: ignore[assignment]
    arrivals: Shape | None = knob(None, "how they come; none: as the file says of each tenant")  # type: ignore[assignment]
    share: Literal["fifo", "priority", "wfq", "static", "elastic"] = knob("wfq", "whose turn it is")
    ageing: float | None = knob(None, "waiting so long is worth one more of priority; none: priority is strict", unit="ms", ge=1, le=3_600_000)
    period: float = knob(100.0, "how far static and elastic shares save up, and how often elastic ones move", unit="ms", ge=1, le=60_000)
    tenants: str | None = knob(None, "a tenants.yaml; none: three examples", live=False)

    @model_validator(mode="after")
    def _knows_whose_requests_come(self) -> Self:
        """Recorded arrivals do not say."""
        if self.replay is not None:
            raise ValueError(f"replay={self.replay!r} does not say whose its requests are; allowed here: none, with rate and arrivals of each tenant in its file")
        return self


def prepare(knobs: TenantsKnobs, where: str) -> Any:
    """The workload for one set of cold knobs, with the tenants. Raises DataError."""
    tenants = tenants_for(knobs)
    workload = prepare_server(knobs, where)
    workload.tenants = tenants
    return workload


def tenants_for(knobs: TenantsKnobs) -> Sequence[Tenant]:
    """The tenants of the file, or the examples. Raises DataError."""
    return tenants_of(EXAMPLE, "the examples") if knobs.tenants is None else read_tenants(Path(knobs.tenants).expanduser())


def arrivals(knobs: TenantsKnobs) -> Arrivals:
    """The schedule of requests. Raises DataError."""
    return TenantArrivals(tenants_for(knobs), knobs.rate, knobs.arrivals, knobs.seed)


EXPERIMENT = Experiment(
    name="tenants",
    question="Who gets what of one device, and how is each tenant protected from the others?",
    knobs=TenantsKnobs,
    kernel=sharing,
    prepare=prepare,
    widths=widths,
    arrivals=arrivals,
    presets={
        "first come, first served": {"share": "fifo"},
        "strict priority": {"share": "priority", "ageing": None},
        "priority with ageing": {"share": "priority", "ageing": 100.0},
        "partitioned": {"share": "static"},
    },
)
