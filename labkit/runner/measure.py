"""From an outcome to a run record: the trace is summarised, judged, and put beside where it came from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from labkit.device.machine import Machine, load_machine
from labkit.errors import LabkitError
from labkit.metrics.circumstances import Circumstances
from labkit.metrics.energy import (
    COST,
    ENERGY,
    Power,
    cost_per_million,
    energy_per_item,
    mean_power,
    measured_power,
    predicted_power,
)
from labkit.metrics.summary import Summary, summarize
from labkit.metrics.verdict import Verdict, judge
from labkit.metrics.window import steady_window
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
    machine = _machine(job)
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
        machine=None if machine is None else machine.as_dict(),
        costs={name: cost._asdict() for name, cost in outcome.costs.items()},
        results={name: _finite(value) for name, value in outcome.results.items()},
        monitor=_without_samples(outcome.monitor),
        provenance=provenance(started),
        energy=energy_of(job, summary, [outcome]) if summary is not None else {},
        allocation=dict(outcome.allocation),
        notes=(*notes, *outcome.notes, *([outcome.detail.strip()] if outcome.detail.strip() else [])),
    )


def energy_of(job: Job, summary: Summary, outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Energy and cost per item of a run, for its record.

    summary   of the run, or of all its rounds together
    outcomes  of the rounds that are in it
    """
    machine, measured = _machine(job), not job.simulated
    if measured:
        power = mean_power([_power(outcome, job) for outcome in outcomes if outcome.trace is not None])
    elif machine is None:
        power = Power(None, reason="the machine's file is gone")
    else:
        power = predicted_power(machine, summary)
    energy, cost = energy_per_item(power, summary.throughput), cost_per_million(machine, summary.throughput, measured)
    return {ENERGY: energy.as_dict(), COST: cost.as_dict()}


def _power(outcome: Outcome, job: Job) -> tuple[Power, float]:
    """The mean power of one measured round, and the length of its window."""
    assert outcome.trace is not None
    window = steady_window(outcome.trace, job.budget.warmup)
    power = measured_power(outcome.monitor, (window.start_ns, window.end_ns), outcome.trace.end_ns, job.device)
    return power, float(window.wall_ns)


def _without_samples(monitor: Mapping[str, Any]) -> dict[str, Any]:
    """The sensors' summaries as the record keeps them: the samples of counters have served their purpose."""
    return {name: {key: value for key, value in summary.items() if key != "samples"} for name, summary in monitor.items()}


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
    around = Circumstances.of_monitor(outcome.monitor)
    return judge(summary, outcome.trace, status=status, measured=measured, warmup_steps=warmup, circumstances=around)


def _finite(value: Any) -> Any:
    """A loss that is no longer a number is absent: strict JSON has no form for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _label(job: Job, trace: Trace | None) -> str:
    return str(trace.meta.get("device_label", job.device)) if trace is not None else job.device


def _machine(job: Job) -> Machine | None:
    """The machine: the simulated one, or this one as far as it has been calibrated."""
    try:
        name = job.device.partition(":")[2] if job.simulated else "this"
        return job.machine or load_machine(name)
    except LabkitError:
        return None
