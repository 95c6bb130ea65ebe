"""A setting: what a panel would run now. Two of them are A and B."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from labkit import lab
from labkit.device import device_label, resolve_device
from labkit.device.machine import Machine, load_machine
from labkit.errors import ExperimentError
from labkit.experiments import Experiment
from labkit.figures.shown import Shown
from labkit.knobs import Knobs
from labkit.knobs.text import value_text
from labkit.panel.machines import apply, changes_between, together
from labkit.result import Run
from labkit.runner.job import Job
from labkit.runner.record import RunRecord
from labkit.schedule import Budget


@dataclass(frozen=True)
class Setting:
    """An experiment with its knobs, and what it runs on.

    device   a resolved name: "cpu", "cuda:0", "simulated:h200"
    changes  figures of the simulated machine that were changed
    """

    experiment: Experiment
    knobs: Knobs
    device: str
    changes: Mapping[str, float] = field(default_factory=dict)

    @property
    def simulated(self) -> bool:
        """Whether its results are predictions."""
        return self.device.startswith("simulated")

    @cached_property
    def machine(self) -> Machine | None:
        """The simulated machine, with its changes; None on a real device."""
        return apply(load_machine(self.device.partition(":")[2]), self.changes) if self.simulated else None

    @property
    def kind(self) -> str:
        """What knobs act on: "cpu" or "cuda", also of a simulated machine."""
        return self.machine.kind if self.machine is not None else self.device.partition(":")[0]

    @cached_property
    def label(self) -> str:
        """`CPU threads`, `GPU 0`, `simulated H200`. Asked for with every frame, so it is made once."""
        return f"simulated {self.machine.label}" if self.machine is not None else device_label(self.device)

    @property
    def honest_label(self) -> str:
        """`measured on CPU threads`, or `simulated H200: a prediction`."""
        return f"{self.label}: a prediction" if self.simulated else f"measured on {self.label}"

    @property
    def chosen(self) -> dict[str, Any]:
        """The knobs that are not at their defaults."""
        return {name: value for name, (value, _) in self.knobs.differences(type(self.knobs)()).items()}

    @property
    def inert(self) -> dict[str, str]:
        """The knobs that cannot act here, and why."""
        reasons = {name: self.knobs.inert_reason(name, self.kind) for name in type(self.knobs).model_fields}
        return {name: reason for name, reason in reasons.items() if reason}

    @property
    def cold(self) -> list[str]:
        """The knobs that restart the worker now."""
        return [name for name in type(self.knobs).model_fields if not self.knobs.acts_live(name)]

    def turned(self, values: Mapping[str, Any]) -> "Setting":
        """With some knobs turned. Raises KnobError."""
        return replace(self, knobs=self.knobs.changed(**values))

    def on(self, device: str) -> "Setting":
        """On another device; changes of a machine do not go along. Raises NoSuchDevice, MachineError."""
        return replace(self, device=resolve_device(device), changes={})

    def with_figures(self, figures: Mapping[str, float]) -> "Setting":
        """With some figures of the simulated machine changed. Raises MachineError, ExperimentError."""
        if not self.simulated:
            raise ExperimentError(f"figures of a machine can be changed where it is simulated; this runs on {self.device}")
        changed = replace(self, changes=together(self.changes, figures))
        apply(load_machine(self.device.partition(":")[2]), changed.changes)  # raises for a value that is not allowed
        return changed

    def why_restart(self, other: "Setting") -> str:
        """Why a run of this setting cannot become one of `other` while it goes on; "" where it can."""
        if self.device != other.device:
            return f"{other.label} instead of {self.label}"
        if self.changes != other.changes:
            return "another machine"
        cold = [name for name in self.knobs.differences(other.knobs) if not self.knobs.acts_live(name)]
        cold += sorted(other.knobs.cold().keys() - self.knobs.cold().keys())
        return f"{', '.join(dict.fromkeys(cold))} cannot be turned while it runs" if cold else ""

    def job(self, budget: Budget, *, costs: Run | None = None, live: bool = False) -> Job:
        """What a worker needs to run it."""
        return lab.job_of(self.experiment, self.knobs, self.device, budget, costs, self.machine, live)

    def words(self, other: "Setting | None" = None) -> str:
        """How it differs from another, or from the defaults: `prefetch 4, normalise_on gpu`."""
        base = other.knobs if other is not None else type(self.knobs)()
        parts = [f"{name} {value_text(value)}" for name, (value, _) in self.knobs.differences(base).items()]
        if other is not None and (other.device, dict(other.changes)) != (self.device, dict(self.changes)):
            parts.append(f"on {self.label}")
        return ", ".join(parts) or ("the same settings" if other is not None else "the defaults")


def setting_of(record: RunRecord, experiment: Experiment) -> Setting:
    """What a recorded run was run with. Raises ExperimentError for a run that this experiment cannot repeat, KnobError, MachineError."""
    if (record.experiment, record.content) != (experiment.name, experiment.content):
        other = record.experiment if record.experiment != experiment.name else "a workload of the same name with other data or another model"
        raise ExperimentError(f"run {record.id} is of {other}; this panel runs {experiment.name}")
    setting = Setting(experiment, experiment.knobs.parse(record.knobs), record.device).on(record.device)
    if setting.machine is None or record.machine is None:
        return setting
    changed = replace(setting, changes=changes_between(setting.machine, record.machine["figures"]))
    if changed.machine is not None and changed.machine.label != record.machine["label"]:
        raise ExperimentError(f"run {record.id} was simulated on {record.machine['label']}, which the panel's sliders cannot make again")
    return changed


@dataclass(frozen=True)
class Pinned:
    """What was pinned as A: its setting, and what was seen of it.

    shown  None where it has not been measured yet
    run    the run that it was taken from, whose op times may predict B; None for a part of a run
    """

    setting: Setting
    shown: Shown | None = None
    run: Run | None = None


def comparable(a: Setting, b: Setting) -> None:
    """Raises ExperimentError for two settings that must not be measured against each other."""
    if a.experiment.name != b.experiment.name:
        raise ExperimentError(f"A is of the experiment {a.experiment.name} and B of {b.experiment.name}")
    if a.simulated != b.simulated:
        raise ExperimentError(
            f"A runs on {a.label} and B on {b.label}: a measurement and a prediction can be looked at side by side, but "
            "their ratio would say nothing; choose a real device for both, or a simulated one for both"
        )
