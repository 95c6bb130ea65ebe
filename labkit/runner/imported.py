"""A trace of PyTorch's profiler as a run: a record like any other, whose verdict says what cannot be known of it here.

Its items are the profiler's steps, so its rate is in steps/s; a file with fewer than two has no rate, and its span is told instead.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit.errors import TraceError
from labkit.metrics.bottleneck import cpu_bottleneck, gpu_bottleneck
from labkit.metrics.gpu_idle import gpu_time
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary, summarize
from labkit.metrics.unit_slices import HOST
from labkit.metrics.verdict import Verdict
from labkit.metrics.window import completions
from labkit.runner.record import RunRecord
from labkit.trace import KIND_OP, Trace
from labkit.trace.kineto import read_kineto
from labkit.trace.kineto.waits import NONE_AT_ALL
from labkit.trace.provenance import provenance
from labkit.units import NS_PER_MS, NS_PER_S, format_time

EXPERIMENT = "imported"
HOW = "imported: how it was measured, and what was warm-up, is not known here"
STEPS_PER_S = "steps/s"

_SUFFIX = " (imported trace)"
_UNTOLD = "the file does not say when the host waited: what it worked is not known"
_RATE = "profiler steps completed in the steady window ÷ its length"


def imported_run(path: str | Path, run_id: str, started: datetime) -> tuple[RunRecord, Trace]:
    """The record and the trace of a profiler's file. Raises TraceError where nothing can be made of it."""
    path = Path(path)
    imported = read_kineto(path)
    trace = imported.trace
    steps = len(completions(trace))
    reasons = [HOW] if steps > 1 else [HOW, f"{_no_steps(steps)}: there is no rate of steps"]
    reasons += [note for note in imported.notes if NONE_AT_ALL in note]
    record = RunRecord(
        id=run_id,
        experiment=EXPERIMENT,
        status="ok",
        reason="",
        knobs={},
        device="imported",
        device_label=str(trace.meta["device_label"]),
        measured=True,
        budget={"steps": None, "seconds": None, "warmup": 0},
        started_at=started.isoformat(timespec="seconds"),
        wall_s=round(trace.makespan_ns / NS_PER_S, 3),
        key=_digest(path)[:16],
        metrics=imported_summary(trace).as_dict(),
        verdict=Verdict("WEAK", tuple(reasons)),
        results=_contents(trace, steps),
        provenance={"file": path.name, "file_bytes": path.stat().st_size, "file_sha256": _digest(path), "imported_on": provenance(started)},
        notes=imported.notes,
    )
    return record, trace


def imported_summary(trace: Trace) -> Summary:
    """The summary of an imported trace: a rate in steps, a bottleneck that rests on the GPU's own queue, and no host that is said to be busy
    where the file does not tell its waits from its work. TraceError for a malformed trace."""
    summary = summarize(trace)
    told = bool(trace.meta.get("host_waits_told", True))
    busy = dict(summary.utilization)
    if HOST in busy and not told:
        busy[HOST] = replace(busy[HOST], value=None, reason=_UNTOLD)
    steps = len(completions(trace))
    rate = replace(summary.throughput, unit=STEPS_PER_S, definition=_RATE)
    if rate.value is None:
        rate = replace(rate, reason=f"{_no_steps(steps)}, and it takes two: all of it takes {format_time(trace.makespan_ns)}")
    return replace(
        summary,
        throughput=rate,
        step_interval=_known(summary.step_interval),
        batch_age=_known(summary.batch_age),
        utilization=busy,
        bottleneck=_bottleneck(trace, summary, busy.get(HOST)),
    )


def origin(record: RunRecord) -> str | None:
    """`imported: PyTorch profiler trace, NVIDIA A100-PG509-200, file alexnet.json.gz`; None for a run that is not imported."""
    if record.experiment != EXPERIMENT:
        return None
    return f"imported: PyTorch profiler trace, {record.device_label.removesuffix(_SUFFIX)}, file {record.provenance.get('file', 'unknown')}"


def contents(record: RunRecord) -> str | None:
    """`98 ops on compute20, compute7 in 13 s, 2 ProfilerSteps`; None for a run that is not imported, or was by an older version."""
    held: Mapping[str, Any] = record.results
    if record.experiment != EXPERIMENT or "span_ms" not in held:
        return None
    return f"{held['ops']:,} ops on {held['lanes']} in {format_time(held['span_ms'] * NS_PER_MS)}, {_no_steps(held['steps'])}"


def _bottleneck(trace: Trace, summary: Summary, host: Metric | None) -> str:
    time = gpu_time(trace, *summary.window_ns)
    if time is not None:
        return gpu_bottleneck(time, host.value if host is not None else None)
    start_ns, end_ns = summary.window_ns
    ops = {name: each.n * each.mean_ns / (end_ns - start_ns) for name, each in summary.ops.items() if each.lane == HOST and end_ns > start_ns}
    return cpu_bottleneck(ops)


def _contents(trace: Trace, steps: int) -> dict[str, Any]:
    ops = trace["kind"] == KIND_OP
    lanes = sorted({trace.lanes[code] for code in trace["lane"][ops].tolist()})
    return {"span_ms": round(trace.makespan_ns / NS_PER_MS, 3), "ops": int(ops.sum()), "lanes": ", ".join(lanes), "steps": steps}


def _known(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """None at all where none has a value: a row of dashes says nothing that the rate's reason does not."""
    return metrics if any(metric.value is not None for metric in metrics.values()) else {}


def _no_steps(steps: int) -> str:
    return f"{steps or 'no'} ProfilerStep{'s' if steps > 1 else ''} in it"


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
