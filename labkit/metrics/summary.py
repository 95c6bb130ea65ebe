"""The summary: all the numbers of one run, each from the trace, with its n or why it is absent.

It goes into the run record as plain data and comes back as it was.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from labkit.metrics.bottleneck import bottleneck
from labkit.metrics.bound import bound_efficiency
from labkit.metrics.latency import batch_age, step_interval
from labkit.metrics.metric import Metric
from labkit.metrics.overlap import overlap
from labkit.metrics.percentiles import quantile
from labkit.metrics.requests import RequestSummary, counted_requests, request_summary
from labkit.metrics.stalls import account, in_words, waits_by_cause
from labkit.metrics.throughput import throughput
from labkit.metrics.unit_slices import slices_by_unit
from labkit.metrics.utilization import utilization
from labkit.metrics.window import Window, completions, steady_window
from labkit.schedule import Status
from labkit.trace import KIND_OP, Trace


@dataclass(frozen=True)
class OpStats:
    """How long the ops of one name took. `lane` names every lane they ran on."""

    n: int
    mean_ns: float
    p50_ns: float
    lane: str


@dataclass(frozen=True)
class Summary:
    """The numbers of one run.

    measured       False for a prediction
    window_ns      from when to when the run is counted; the whole run where nothing completed after the
                   warm-up
    step_interval  by `mean`, `p50`, `p95`, `p99`; batch_age by `p50`, `p95`, `p99`
    utilization    lane → busy share
    waiting        lane → cause in words → share of the lane's time, the largest first; with the busy share
                   they make 1
    overlap        the overlapped share of the busy time
    ops            op name → how long it took, of those that succeeded and ended in the window
    dropped        rows that the trace could not keep
    steps          steps that completed, warm-up included
    requests       of a run that serves
    """

    measured: bool
    window_ns: tuple[int, int]
    throughput: Metric
    step_interval: dict[str, Metric]
    batch_age: dict[str, Metric]
    utilization: dict[str, Metric]
    waiting: dict[str, dict[str, float]]
    overlap: Metric
    bound_efficiency: Metric
    bottleneck: str
    ops: dict[str, OpStats]
    dropped: int
    steps: int
    requests: RequestSummary | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the record: strict JSON can hold it."""
        data = asdict(self) | {"window_ns": list(self.window_ns)}
        data.pop("requests")
        return data if self.requests is None else data | {"requests": self.requests.as_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Summary":
        """What `as_dict` was called on. Raises KeyError, TypeError for other data."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name != "requests"}
        for name in ("throughput", "overlap", "bound_efficiency"):
            known[name] = Metric(**data[name])
        for name in ("step_interval", "batch_age", "utilization"):
            known[name] = {key: Metric(**metric) for key, metric in data[name].items()}
        known["ops"] = {name: OpStats(**stats) for name, stats in data["ops"].items()}
        known["window_ns"] = tuple(data["window_ns"])
        if data.get("requests") is not None:
            known["requests"] = RequestSummary.from_dict(data["requests"])
        return cls(**known)


def summarize(trace: Trace, *, warmup_steps: int = 0) -> Summary:
    """The summary of a run without its first `warmup_steps` steps. TraceError for a malformed trace."""
    window = steady_window(trace, warmup_steps)
    span = (window.start_ns, window.end_ns)
    units = slices_by_unit(trace)
    accounts = account(trace, units)
    busy = utilization(accounts, *span)
    causes = waits_by_cause(accounts, *span)
    both = overlap(trace, *span, units)
    return Summary(
        measured=bool(trace.meta.get("measured", True)),
        window_ns=span,
        throughput=throughput(trace, window),
        step_interval=step_interval(trace, window),
        batch_age=batch_age(trace, window),
        utilization=busy,
        waiting={lane: in_words(shares) for lane, shares in causes.items()},
        overlap=both.share,
        bound_efficiency=bound_efficiency(busy),
        bottleneck=bottleneck(causes, busy, both.share, both.occupied(*span)),
        ops=op_stats(trace, window),
        dropped=trace.dropped,
        steps=_steps_completed(trace),
        requests=request_summary([counted_requests(trace, window, warmup_steps)]),
    )


def op_stats(trace: Trace, window: Window) -> dict[str, OpStats]:
    """How long the ops of each name took that succeeded and ended in the window, in order of name."""
    end = trace["end_ns"]
    counted = (trace["kind"] == KIND_OP) & (trace["status"] == Status.OK) & (trace["start_ns"] >= 0)
    counted &= (end > window.start_ns) & (end <= window.end_ns)
    rows = np.flatnonzero(counted)
    rows = rows[np.argsort(trace["name"][rows], kind="stable")]
    groups = np.split(rows, np.flatnonzero(np.diff(trace["name"][rows])) + 1) if len(rows) else []
    stats = {trace.name_of(group[0]): _stats(trace, group) for group in groups}
    return {name: stats[name] for name in sorted(stats)}


def _steps_completed(trace: Trace) -> int:
    steps = trace["step"][completions(trace)]
    return len(np.unique(steps[steps >= 0]))


def _stats(trace: Trace, rows: np.ndarray) -> OpStats:
    durations = np.sort(trace["end_ns"][rows] - trace["start_ns"][rows])
    lanes = ", ".join(trace.lanes[code] for code in np.unique(trace["lane"][rows]))
    return OpStats(len(rows), float(durations.mean()), quantile(durations, 0.5), lanes)
