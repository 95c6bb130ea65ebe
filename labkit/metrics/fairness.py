"""What each of several tenants got of a server: its share of the service against its share by weight, its latency, and whether it starved.

Service is the time that batches kept the compute lane, charged to each tenant by its part of each batch; what is worked off when no more
requests come is not counted, since nobody competes then. The index of fairness is Jain's, over
service ÷ weight of the tenants that asked for more than they got: a tenant that wants little is not treated badly by getting little.
(R. Jain, D. Chiu and W. Hawe, "A quantitative measure of fairness and discrimination for resource allocation", DEC-TR-301, 1984.)

A tenant starves where it had requests waiting and none of them was sent for longer than `GAPS` times what its share by weight would have it
wait between two batches, and `BEHIND` times as long as the slow ones of the others' requests (p95) wait: where all wait alike, nobody starves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from labkit.metrics.metric import Metric
from labkit.metrics.percentiles import percentile
from labkit.schedule import Answer
from labkit.trace import KIND_OP, Trace
from labkit.units import NS_PER_S, format_time

GAPS, BEHIND = 20.0, 2.0
BACKLOGGED = 0.5
"""Of the time, for which a tenant's requests must have been waiting for it to have asked for more than it got."""


@dataclass(frozen=True)
class TenantSummary:
    """One tenant's numbers. `answers`: of all its requests that count; `entitled`: its share by weight."""

    name: str
    entitled: float
    answers: dict[str, int]
    service: Metric
    latency_p50: Metric
    latency_p99: Metric
    goodput: Metric
    unserved: Metric
    longest_gap: Metric
    starved: bool

    def metrics(self) -> dict[str, Metric]:
        """By the name that tables give them."""
        return {
            f"{self.name}: share of service": self.service, f"{self.name}: latency p50": self.latency_p50, f"{self.name}: latency p99": self.latency_p99,
            f"{self.name}: goodput": self.goodput, f"{self.name}: unserved": self.unserved, f"{self.name}: longest gap": self.longest_gap,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TenantSummary":
        """What `asdict` gave."""
        known = dict(data)
        for name in ("service", "latency_p50", "latency_p99", "goodput", "unserved", "longest_gap"):
            known[name] = Metric(**data[name])
        return cls(**known)


@dataclass(frozen=True)
class Fairness:
    """All tenants, and Jain's index over those that asked for more than they got."""

    tenants: tuple[TenantSummary, ...]
    jain: Metric

    def metrics(self) -> dict[str, Metric]:
        """The index, and each tenant's own."""
        named = {"fairness": self.jain}
        for tenant in self.tenants:
            named |= tenant.metrics()
        return named

    @property
    def starved(self) -> tuple[str, ...]:
        """In words, who starved: `backfill had requests waiting for 4.2 s and none of them was sent`."""
        return tuple(
            f"{each.name} starved: its requests waited for {format_time(each.longest_gap.value)} and none of them was sent" for each in self.tenants if each.starved
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Fairness":
        """What `as_dict` gave."""
        return cls(tuple(TenantSummary.from_dict(each) for each in data["tenants"]), Metric(**data["jain"]))


def service_by_tenant(trace: Trace, columns: Mapping[str, np.ndarray], tenants: int) -> np.ndarray:
    """Compute time in ns of each tenant's parts of the batches of these requests, float64 [tenants]."""
    sent = columns["step"] >= 0
    if not sent.any():
        return np.zeros(tenants)
    compute = np.array([lane.startswith("compute") for lane in trace.lanes], bool)[trace["lane"]] if len(trace) else np.zeros(0, bool)
    rows = compute & (trace["kind"] == KIND_OP) & (trace["end_ns"] >= 0) & (trace["step"] >= 0)
    last = int(max(columns["step"].max(), trace["step"][rows].max() if rows.any() else 0)) + 1
    took = np.bincount(trace["step"][rows], (trace["end_ns"] - trace["start_ns"])[rows], last)
    sizes = np.bincount(columns["step"][sent], minlength=last)
    each = took[columns["step"][sent]] / sizes[columns["step"][sent]]
    return np.bincount(columns["tenant"][sent], each, tenants)


def fairness(trace: Trace, columns: Mapping[str, np.ndarray], span_ns: int) -> Fairness | None:
    """Of the requests that count, due within `span_ns`; None where the run has no tenants."""
    known: Sequence[Mapping[str, Any]] = trace.meta.get("tenants", ())
    if not known:
        return None
    weights = np.array([float(each["weight"]) for each in known])
    last = columns["due_ns" if span_ns else "done_ns"]  # where all came at once, all that was done for them counts
    end_ns = int(last.max()) if len(last) else 0
    entitled, service_ns = weights / weights.sum(), service_by_tenant(trace, _sent_by(columns, end_ns), len(known))
    whole = service_ns.sum()
    batch_ns = whole / max(len(np.unique(_sent_by(columns, end_ns)["step"])), 1)
    parts = [{name: column[columns["tenant"] == place] for name, column in columns.items()} for place in range(len(known))]
    gaps = [_gap_and_backlog_ns(part, _sends_ns(trace, place), end_ns) for place, part in enumerate(parts)]
    found = []
    for place, (part, (gap_ns, _)) in enumerate(zip(parts, gaps, strict=True)):
        others = [_waits_ns(other) for number, other in enumerate(parts) if number != place]
        usual_ns = float(np.percentile(np.concatenate(others), 95)) if sum(map(len, others)) else 0.0
        starved = gap_ns > GAPS * batch_ns / entitled[place] and gap_ns > BEHIND * usual_ns and len(known) > 1
        share = None if not whole else float(service_ns[place] / whole)
        found.append(_summary(str(known[place]["name"]), float(entitled[place]), part, share, gap_ns, span_ns, starved))
    asking = [place for place, (_, backlog_ns) in enumerate(gaps) if backlog_ns > BACKLOGGED * span_ns]
    return Fairness(tuple(found), _jain(service_ns, weights, asking))


def jain(values: Sequence[float]) -> float:
    """(Σx)² ÷ (n·Σx²): 1 where all are equal, 1/n where one has everything; 1 where nobody has anything."""
    squares = sum(value * value for value in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


def slowdown(shared: Fairness, alone: Mapping[str, TenantSummary]) -> dict[str, float | None]:
    """Tenant → its median latency beside the others ÷ that alone on the device; None where either is absent."""
    ratios: dict[str, float | None] = {}
    for tenant in shared.tenants:
        mine, own = tenant.latency_p50.value, alone[tenant.name].latency_p50.value if tenant.name in alone else None
        ratios[tenant.name] = None if mine is None or not own else mine / own
    return ratios


def _summary(name: str, entitled: float, part: Mapping[str, np.ndarray], share: float | None, gap_ns: int, span_ns: int, starved: bool) -> TenantSummary:
    served, n = part["answer"] == Answer.SERVED, len(part["answer"])
    latency_ns = (part["done_ns"] - part["due_ns"])[served]
    promised = part["slo_ns"] > 0
    kept = int((served & promised & (part["done_ns"] - part["due_ns"] <= part["slo_ns"])).sum())
    good = kept * NS_PER_S / span_ns if promised.any() and span_ns else None
    return TenantSummary(
        name=name,
        entitled=entitled,
        answers={answer.name.lower(): int((part["answer"] == answer).sum()) for answer in Answer},
        service=Metric(f"{name}: share of service", share, "share", n, "its part of the time that batches kept the compute lane", None, None if share is not None else "no batch was sent"),
        latency_p50=percentile(latency_ns, 0.5, name=f"{name}: latency p50", definition="median time from due to answer, of those served"),
        latency_p99=percentile(latency_ns, 0.99, name=f"{name}: latency p99", definition="p99 of the time from due to answer, of those served"),
        goodput=Metric(f"{name}: goodput", good, "requests/s", kept, "its requests served within their SLO ÷ time", "higher", None if good is not None else "no SLO was promised"),
        unserved=Metric(f"{name}: unserved", float((~served).mean()) if n else None, "share", n, "its requests without an answer ÷ all", "lower", None if n else "no request was due"),
        longest_gap=Metric(f"{name}: longest gap", float(gap_ns), "ns", n, "the longest time for which its requests waited and none of them was sent", "lower"),
        starved=bool(starved),
    )


def _sent_by(columns: Mapping[str, np.ndarray], end_ns: int) -> dict[str, np.ndarray]:
    """Those of the requests that were sent by then."""
    sent = (columns["first_ns"] >= 0) & (columns["first_ns"] <= end_ns)
    return {name: column[sent] for name, column in columns.items()}


def _waits_ns(part: Mapping[str, np.ndarray]) -> np.ndarray:
    """How long each request that was sent waited for that."""
    sent = part["first_ns"] >= 0
    return (part["first_ns"] - part["due_ns"])[sent]


def _sends_ns(trace: Trace, place: int) -> np.ndarray:
    """When requests of a tenant were sent, those that do not count among them, ascending."""
    sent = (trace.requests["tenant"] == place) & (trace.requests["first_ns"] >= 0)
    return np.sort(trace.requests["first_ns"][sent])


def _gap_and_backlog_ns(part: Mapping[str, np.ndarray], sends: np.ndarray, end_ns: int) -> tuple[int, int]:
    """Until then: the longest stretch in which somebody waited and nobody was sent, and for how long in all somebody waited."""
    waiting_until = np.minimum(np.where(part["first_ns"] >= 0, part["first_ns"], part["done_ns"]), end_ns)
    stayed = waiting_until > part["due_ns"]
    if not stayed.any():
        return 0, 0
    begin, end = part["due_ns"][stayed], waiting_until[stayed]
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.append(True, begin[1:] > reach[:-1])
    starts, ends = begin[opens], np.append(reach[:-1][opens[1:]], reach[-1])
    longest = 0
    for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
        inside = sends[np.searchsorted(sends, start, "left") : np.searchsorted(sends, stop, "right")]
        longest = max(longest, int(np.diff(np.concatenate([[start], inside, [stop]])).max()))
    return longest, int((ends - starts).sum())


def _jain(service_ns: np.ndarray, weights: np.ndarray, asking: Sequence[int]) -> Metric:
    definition = "Jain's index of service ÷ weight over the tenants whose requests waited more than half of the time; 1 is fair"
    if len(asking) < 2:
        return Metric("fairness", None, "", len(asking), definition, "higher", f"{len(asking)} of {len(weights)} tenants asked for more than they got; it takes two")
    return Metric("fairness", jain((service_ns[asking] / weights[asking]).tolist()), "", len(asking), definition, "higher")
