"""The run record: what a run leaves, whether it succeeded or not. The store keeps it; everything later reads it.

Success is read from this record, never from a notebook's status or an exit code.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from labkit.metrics.metric import Metric
from labkit.metrics.verdict import Grade, Verdict

__all__ = ["SCHEMA_VERSION", "Grade", "RunRecord", "RunStatus", "Verdict"]

SCHEMA_VERSION = 1

RunStatus = Literal["ok", "failed", "cancelled"]

NOT_JUDGED = Verdict("INVALID", ("nothing was measured",))

_TEXTS = ("id", "experiment", "status", "reason", "device", "device_label", "started_at", "key", "content")
_TABLES = ("knobs", "budget", "metrics", "costs", "results", "monitor", "provenance", "energy", "allocation")
_KINDS = dict.fromkeys(_TEXTS, str) | dict.fromkeys(_TABLES, dict)
_KINDS |= {"wall_s": int | float, "measured": bool, "machine": dict | None}
_ALERT = dict.fromkeys(("metric", "unit", "words"), str) | {"level": str | None}
_ALERT |= dict.fromkeys(("value", "limit"), int | float | None)


@dataclass(frozen=True)
class RunRecord:
    """One run.

    id            unique, sortable by time: "20261130-231502-pipeline-3f2a"
    key           names what was measured: the same experiment, knobs, device, machine and budget give the same key
    status        ok, failed or cancelled; `reason` says why when not ok
    knobs         the values at the start; toggles during the run are marks in the trace
    device        "cpu", "cuda:0", "simulated:h200"; `device_label` for people; `measured` False for a prediction
    machine       figures with sources (simulated: the machine; otherwise this machine's calibration, None if never done)
    budget        steps, seconds, warmup
    metrics       what `labkit.metrics.Summary.as_dict()` gives; {} for a run that left no trace
    costs         op name → the mean cost of its ops, for predictions from this run's op times
    results       what the workload says of itself: the last loss, ...
    monitor       sensors' summaries, each with its reason where absent
    provenance    host, versions, time, git revision
    alerts        what the rules that it was checked against say of it, as `labkit.monitor.alerts.Alert.as_dict()` gives it
    content       what tells workloads of one name apart: a digest of data and model; "" for experiments of the catalogue
    energy        energy and cost per item: name → what `labkit.metrics.metric.Metric.as_dict()` gives; {} where nobody asked
    allocation    what of its allocation policy was applied, and what was not: a line each, with its reason; {} without a policy
    notes         words for people: knobs that cannot act here, oversubscription, skipped images
    """

    id: str
    experiment: str
    status: RunStatus
    reason: str
    knobs: dict[str, Any]
    device: str
    device_label: str
    measured: bool
    budget: dict[str, Any]
    started_at: str
    wall_s: float
    key: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    verdict: Verdict = NOT_JUDGED
    machine: dict[str, Any] | None = None
    costs: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    monitor: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    alerts: tuple[dict[str, Any], ...] = ()
    content: str = ""
    energy: dict[str, dict[str, Any]] = field(default_factory=dict)
    allocation: dict[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def warmup(self) -> int:
        """Steps that its numbers leave out; 0 where the record does not say."""
        steps = self.budget.get("warmup")
        return steps if isinstance(steps, int) and steps > 0 else 0

    @property
    def energy_metrics(self) -> dict[str, Metric]:
        """Energy and cost per item as metrics, by name: those that are absent, too, with their reasons."""
        return {name: Metric(**metric) for name, metric in self.energy.items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for strict JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "RunRecord":
        """A record from plain data; fields that this version does not know are ignored. Raises TypeError, KeyError."""
        for name, kinds in _KINDS.items():
            if name in data and not isinstance(data[name], kinds):
                raise TypeError(f"{name} is {data[name]!r}")
        throughput = data.get("metrics", {}).get("throughput", {})
        if not isinstance(throughput, dict) or not isinstance(throughput.get("value"), int | float | None):
            raise TypeError(f"metrics.throughput is {throughput!r}")
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        verdict = data["verdict"]
        known["verdict"] = Verdict(verdict["grade"], tuple(verdict["reasons"]), tuple(verdict.get("facts", ())))
        known["energy"] = {name: Metric(**metric).as_dict() for name, metric in data.get("energy", {}).items()}
        known["notes"] = tuple(data.get("notes", ()))
        known["alerts"] = tuple(_checked_alert(alert) for alert in data.get("alerts", ()))
        return cls(**known)


def _checked_alert(alert: Any) -> dict[str, Any]:
    """An alert as it stands. Raises TypeError, KeyError where it is not one."""
    if not isinstance(alert, dict) or not all(isinstance(alert[name], kind) for name, kind in _ALERT.items()):
        raise TypeError(f"alerts has {alert!r} in it")
    return alert
