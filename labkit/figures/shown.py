"""A run as a figure or a report takes it: under which name, on what, measured or simulated, and what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary
from labkit.metrics.verdict import Grade
from labkit.runner.record import RunRecord
from labkit.trace.trace import Trace

ITEMS_PER_S = "items/s"


@dataclass(frozen=True, eq=False)
class Shown:
    """One run to show.

    label         what people call it here: "A", "B", "prefetch 4"
    device_label  what it ran on, or what was simulated
    measured      False for a prediction
    trace         None where none was kept: figures that need it say so
    predicts      for a prediction of a run that was measured on the same machine, the label of that run: the error
                  can then be told. None for what-if on another machine, whose error nobody knows
    grade         how far it may be trusted: WEAK is drawn paler, INVALID fainter still; None where nobody has judged it
    energy        energy and cost per item, by name; {} where nobody asked
    """

    label: str
    device_label: str
    measured: bool
    summary: Summary
    trace: Trace | None = None
    predicts: str | None = None
    grade: Grade | None = None
    energy: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """The device label, which says "simulated" wherever the run was."""
        if self.measured or "simulated" in self.device_label.lower():
            return self.device_label
        return f"simulated {self.device_label}"

    @property
    def name(self) -> str:
        """Label and device, `B · simulated H200`."""
        return f"{self.label} · {self.device}"

    @property
    def kind(self) -> str:
        """`measured` or `predicted`."""
        return "measured" if self.measured else "predicted"


def shown_of(record: RunRecord, trace: Trace | None, label: str, predicts: str | None = None) -> Shown:
    """A recorded run, ready to show. Raises KeyError, TypeError where the record has no metrics."""
    summary = Summary.from_dict(record.metrics)
    return Shown(label, record.device_label, record.measured, summary, trace, predicts, record.verdict.grade, record.energy_metrics)


def rate_unit(runs: Sequence[Shown]) -> str:
    """What the throughput of these runs counts: items, or the steps of imported traces where there is nothing else."""
    units = {run.summary.throughput.unit for run in runs}
    return units.pop() if len(units) == 1 else ITEMS_PER_S


def measured_run_of(prediction: Shown, runs: Sequence[Shown]) -> Shown | None:
    """The measured run that a prediction predicts, None where it predicts none of `runs`."""
    if prediction.measured or prediction.predicts is None:
        return None
    return next((run for run in runs if run.measured and run.label == prediction.predicts), None)


def absences(runs: Sequence[Shown]) -> list[str]:
    """Why a number of these runs is absent, one line each: `A, step interval p99: …`."""
    lines = []
    for run in runs:
        summary = run.summary
        single = [summary.throughput, summary.overlap, summary.bound_efficiency]
        grouped = [
            *summary.step_interval.values(),
            *summary.batch_age.values(),
            *summary.utilization.values(),
        ]
        for metric in [*single, *grouped]:
            if metric.value is None:
                lines.append(
                    f"{run.label} {run.kind}, {metric.name}: {metric.reason or 'no reason was recorded'}"
                )
    return lines
