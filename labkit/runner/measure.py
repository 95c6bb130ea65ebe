"""From an outcome to a run record: the trace is summarised, judged, and put beside where it came from."""

import math
from dataclasses import asdict
from datetime import datetime
from typing import Any

from labkit.device.machine import load_machine
from labkit.errors import LabkitError
from labkit.metrics.summary import Summary, summarize
from labkit.metrics.verdict import Verdict, judge
from labkit.runner.job import Job, Outcome
from labkit.runner.record import RunRecord
from labkit.trace import Trace
from labkit.trace.provenance import provenance


def record_of(job: Job, outcome: Outcome, *, run_id: str, started: datetime, notes: tuple[str, ...] = ()) -> RunRecord:
    """The record of one run, whether it succeeded or not."""
    summary, failure = _summary(outcome.trace, job.budget.warmup)
    status, reason = outcome.status, outcome.failure
    if failure and status == "ok":
        status, reason = "failed", failure
    measured = not job.simulated
    return RunRecord(
        id=run_id,
        key=job.key,
        content=job.recipe.content,
        experiment=job.recipe.name,
        status=status,
        reason=reason,
        knobs=job.knobs.model_dump(),
        device=job.device,
        device_label=_label(job, outcome.trace),
        measured=measured,
        budget=asdict(job.budget),
        started_at=started.isoformat(timespec="seconds"),
        wall_s=round(outcome.wall_s, 3),
        metrics=summary.as_dict() if summary else {},
        verdict=_verdict(summary, outcome, status, measured, job.budget.warmup),
        machine=_machine(job),
        costs={name: cost._asdict() for name, cost in outcome.costs.items()},
        results={name: _finite(value) for name, value in outcome.results.items()},
        monitor=dict(outcome.monitor),
        provenance=provenance(started),
        notes=(*notes, *outcome.notes, *([outcome.detail.strip()] if outcome.detail.strip() else [])),
    )


def _summary(trace: Trace | None, warmup_steps: int) -> tuple[Summary | None, str]:
    if trace is None or not len(trace):
        return None, ""
    try:
        return summarize(trace, warmup_steps=warmup_steps), ""
    except LabkitError as error:
        return None, f"the trace cannot be summarised: {error}"


def _verdict(summary: Summary | None, outcome: Outcome, status: str, measured: bool, warmup: int) -> Verdict:
    if summary is None or outcome.trace is None:
        return Verdict("INVALID", (outcome.failure or "nothing was measured",))
    return judge(summary, outcome.trace, status=status, measured=measured, warmup_steps=warmup)


def _finite(value: Any) -> Any:
    """A loss that is no longer a number is absent: strict JSON has no form for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _label(job: Job, trace: Trace | None) -> str:
    return str(trace.meta.get("device_label", job.device)) if trace is not None else job.device


def _machine(job: Job) -> dict[str, Any] | None:
    """The figures of the machine: the simulated one, or this one as far as it has been calibrated."""
    try:
        name = job.device.partition(":")[2] if job.simulated else "this"
        return (job.machine or load_machine(name)).as_dict()
    except LabkitError:
        return None
