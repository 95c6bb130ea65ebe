"""The runs of a folder as one tidy table: a row a run, a column a knob. A run that cannot be read has a row too."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.runner.record import RunRecord
from labkit.store.lookup import DEFAULT_FOLDER
from labkit.store.run_store import BrokenRun, StoredRun, list_runs

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


def runs(folder: str | Path = DEFAULT_FOLDER) -> "pd.DataFrame":
    """The runs of a folder, oldest first; an absent number is NaN, never 0.

    Columns: those of COLUMNS, then `busy.<lane>` (shares) and `knob.<name>`. A run that cannot be read has
    status "broken" and its reason. Raises StoreError where the folder is missing.
    """
    import pandas as pd

    rows = [_row(run) for run in list_runs(folder)]
    more = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    busy = sorted(name for name in more if name.startswith("busy."))
    knobs = [name for name in more if name.startswith("knob.")]
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *busy, *knobs])
    return frame.astype({**COLUMNS, **dict.fromkeys(busy, "float64")})


def _row(run: StoredRun | BrokenRun) -> dict[str, Any]:
    if isinstance(run, BrokenRun):
        return {"id": run.path.name, "status": "broken", "reason": run.reason}
    record = run.record
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
        **{f"busy.{lane}": _value(metric) for lane, metric in lanes.items()},
    }


def _percentile(metrics: dict[str, Any], name: str, which: str) -> float | None:
    return _value((metrics.get(name) or {}).get(which))


def _value(metric: dict[str, Any] | None) -> float | None:
    return metric.get("value") if metric else None


def _cell(value: Any) -> Any:
    """A knob's value as a cell that can be grouped by: lists become tuples."""
    return tuple(value) if isinstance(value, list) else value
