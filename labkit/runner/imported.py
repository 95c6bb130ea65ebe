"""A trace of PyTorch's profiler as a run: a record like any other, whose verdict says what cannot be known of it here."""

import hashlib
from datetime import datetime
from pathlib import Path

from labkit.errors import TraceError
from labkit.metrics.summary import summarize
from labkit.metrics.verdict import Verdict
from labkit.metrics.window import completions
from labkit.runner.record import RunRecord
from labkit.trace import Trace
from labkit.trace.kineto import read_kineto
from labkit.trace.provenance import provenance
from labkit.units import NS_PER_S

EXPERIMENT = "imported"
HOW = "imported: how it was measured, and what was warm-up, is not known here"


def imported_run(path: str | Path, run_id: str, started: datetime) -> tuple[RunRecord, Trace]:
    """The record and the trace of a profiler's file. Raises TraceError where nothing can be made of it."""
    path = Path(path)
    imported = read_kineto(path)
    trace = imported.trace
    summary = summarize(trace)
    steps = len(completions(trace))
    reasons = [HOW] if steps > 1 else [HOW, f"{steps or 'no'} ProfilerStep in it: there is no rate of steps"]
    reasons += [note for note in imported.notes if "no synchronisation" in note]
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
        metrics=summary.as_dict(),
        verdict=Verdict("WEAK", tuple(reasons)),
        provenance={"file": path.name, "file_bytes": path.stat().st_size, "file_sha256": _digest(path), "imported_on": provenance(started)},
        notes=imported.notes,
    )
    return record, trace


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
