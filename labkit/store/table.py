"""The runs of a folder as one tidy table: a row a run, a column a knob. A run that cannot be read has a row too."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.runner.record import RunRecord
from labkit.store.lookup import DEFAULT_FOLDER
from labkit.store.run_store import BrokenRun, list_runs

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "id": "string",
    "experiment": "string",
    "status": "string",
    "reason": "string",
    "device": "string",
    "device_label": "string",
    "measured": "boolean",
    "grade": "string",
    "started_at": "string",
    "throughput": "float64",
    "step_interval_p50_ns": "float64",
    "step_interval_p95_ns": "float64",
    "step_interval_p99_ns": "float64",
    "batch_age_p50_ns": "float64",
    "bottleneck": "string",
}


SERVED_COLUMNS = ("goodput", "latency_p50_ns", "latency_p95_ns", "latency_p99_ns", "unserved", "batch_size")
"""Only in tables with runs that serve requests."""


def runs(folder: str | Path = DEFAULT_FOLDER) -> "pd.DataFrame":
    """The runs of a folder, oldest first; an absent number is NaN, never 0.

    Columns: those of COLUMNS, of SERVED_COLUMNS where a run serves requests, then `busy.<lane>` (shares) and `knob.<name>`. A run that cannot
    be read has status "broken" and its reason. Raises StoreError where the folder is missing.
    """
    return _frame([_broken(run) if isinstance(run, BrokenRun) else _row(run.record) for run in list_runs(folder)])


def table_of(records: Iterable[RunRecord]) -> "pd.DataFrame":
    """The same table of some records, in their order."""
    return _frame([_row(record) for record in records])


def _frame(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd

    more = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    numbers = [name for name in SERVED_COLUMNS if name in more] + sorted(name for name in more if name.startswith("busy."))
    knobs = [name for name in more if name.startswith("knob.")]
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *numbers, *knobs])
    return frame.astype({**COLUMNS, **dict.fromkeys(numbers, "float64")})


def _broken(run: BrokenRun) -> dict[str, Any]:
    return {"id": run.path.name, "status": "broken", "reason": run.reason}


def _row(record: RunRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "experiment": record.experiment,
        "status": record.status,
        "reason": record.reason,
        "device": record.device,
        "device_label": record.device_label,
        "measured": record.measured,
        "grade": record.verdict.grade,
        "started_at": record.started_at,
        **_metrics(record),
        **{f"knob.{name}": _cell(value) for name, value in record.knobs.items()},
    }


def _metrics(record: RunRecord) -> dict[str, Any]:
    metrics = record.metrics
    lanes = metrics.get("utilization") or {}
    return {
        "throughput": _value(metrics.get("throughput")),
        "step_interval_p50_ns": _percentile(metrics, "step_interval", "p50"),
        "step_interval_p95_ns": _percentile(metrics, "step_interval", "p95"),
        "step_interval_p99_ns": _percentile(metrics, "step_interval", "p99"),
        "batch_age_p50_ns": _percentile(metrics, "batch_age", "p50"),
        "bottleneck": metrics.get("bottleneck"),
        **_served(metrics.get("requests")),
        **{f"busy.{lane}": _value(metric) for lane, metric in lanes.items()},
    }


def _served(requests: dict[str, Any] | None) -> dict[str, float | None]:
    if not requests:
        return {}
    latency = {f"latency_{which}_ns": _percentile(requests, "latency", which) for which in ("p50", "p95", "p99")}
    return latency | {name: _value(requests.get(name)) for name in ("goodput", "unserved", "batch_size")}


def _percentile(metrics: dict[str, Any], name: str, which: str) -> float | None:
    return _value((metrics.get(name) or {}).get(which))


def _value(metric: dict[str, Any] | None) -> float | None:
    return metric.get("value") if metric else None


def _cell(value: Any) -> Any:
    """A knob's value as a cell that can be grouped by: lists become tuples."""
    return tuple(value) if isinstance(value, list) else value
