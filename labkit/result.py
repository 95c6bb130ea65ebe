"""What the lab gives back: a run, two runs compared, the runs of a sweep. Data and how it is read; nothing here measures."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.device.cost_model import MeasuredCosts
from labkit.errors import RunFailed
from labkit.figures.numbers import metric_text
from labkit.figures.shown import Shown
from labkit.metrics.measured_costs import measured_costs
from labkit.metrics.summary import Summary
from labkit.runner.compare import Comparison
from labkit.runner.record import RunRecord
from labkit.schedule import Cost
from labkit.store.table import table_of
from labkit.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Run:
    """One run: its record, its trace, and the folder it was saved in (None where it was not)."""

    record: RunRecord
    trace: Trace | None
    path: Path | None = None

    def __repr__(self) -> str:
        record = self.record
        how = "measured on " if record.measured else ""
        rate = metric_text(self.summary.throughput) if self.summary else record.reason
        return f"<Run {record.id} {record.status}: {rate}, {how}{record.device_label}, {record.verdict.grade}>"

    @cached_property
    def summary(self) -> Summary | None:
        """The metrics as objects; None for a run that left none."""
        return Summary.from_dict(self.record.metrics) if self.record.metrics else None

    def checked(self) -> "Run":
        """This run. Raises RunFailed where it did not succeed, so that a notebook stops there."""
        if self.record.status != "ok":
            raise RunFailed(f"run {self.record.id} {self.record.status}: {self.record.reason}")
        return self

    def shown(self, label: str) -> Shown:
        """This run as figures and reports take it. Raises RunFailed where there is nothing to show."""
        summary = self.checked().summary
        if summary is None:
            raise RunFailed(f"run {self.record.id} left no metrics to show")
        record = self.record
        return Shown(label, record.device_label, record.measured, summary, self.trace, grade=record.verdict.grade, energy=record.energy_metrics)

    def costs(self) -> MeasuredCosts:
        """The op times of this run, for a prediction of other settings."""
        if self.trace is None:
            raise RunFailed(f"run {self.record.id} has no trace to take op times from")
        reference = {name: Cost(**cost) for name, cost in self.record.costs.items()}
        return measured_costs(
            self.trace, warmup_steps=self.record.warmup, source=self.record.id, costs=reference
        )


@dataclass(frozen=True)
class Compared:
    """A and B, measured in turns: each as a run, and how they compare. `beside` was measured in the same rounds."""

    a: Run
    b: Run
    comparison: Comparison
    beside: Run | None = None


@dataclass(frozen=True)
class Swept:
    """A sweep: the runs it made, and those that were there already (without their traces)."""

    made: tuple[Run, ...]
    there: tuple[Run, ...]

    def table(self) -> "pd.DataFrame":
        """All of them as `labkit.runs` gives those of a folder: a row a run, a column a knob."""
        return table_of(run.record for run in (*self.there, *self.made))
