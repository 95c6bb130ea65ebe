"""A job is all that a worker needs to run a kernel once; an outcome is all that comes back."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from labkit.device.cost_model import MeasuredCosts
from labkit.device.machine import Machine
from labkit.knobs import Knobs
from labkit.monitor import Reading
from labkit.schedule import Budget, Cost
from labkit.schedule.arrivals import Arrivals
from labkit.trace import Trace
from labkit.trace.mirror import Part


@dataclass(frozen=True)
class Recipe:
    """What to run, whatever the knobs: see `labkit.experiments.Experiment` for the meaning of each part."""

    name: str
    kernel: Callable[[Any, Any, Any], None]
    prepare: Callable[[Any, str], Any]
    widths: Callable[[Any], dict[str, int]]
    content: str = ""
    arrivals: Callable[[Any], Arrivals] | None = None


@dataclass(frozen=True)
class Job:
    """One run of one recipe.

    device    a resolved name: "cpu", "cuda:0", "simulated:h200"
    measured  op times for a simulated device to use before its machine's figures
    machine   a machine for a simulated device other than the one its name says
    cap       rows that the trace keeps at most
    live      somebody watches: frames carry what was recorded, a simulated device keeps to the wall clock, and being
              stopped is how the run normally ends
    """

    recipe: Recipe
    knobs: Knobs
    device: str
    budget: Budget
    measured: MeasuredCosts | None = None
    machine: Machine | None = None
    cap: int = 1_000_000
    live: bool = False

    @property
    def simulated(self) -> bool:
        """Whether it runs on virtual time."""
        return self.device.startswith("simulated")

    @property
    def allocation(self) -> str | None:
        """The allocation policy that it runs under, by path or name; None for an experiment without that knob, too."""
        return getattr(self.knobs, "allocation", None)

    @property
    def shares(self) -> dict[str, int]:
        """Cores of each thread of a lane role: `threads` for compute where the experiment has that knob and threads compute."""
        threads = getattr(self.knobs, "threads", None)
        return {"compute": threads} if threads is not None and self.device == "cpu" else {}

    @property
    def where(self) -> str:
        """What a workload is prepared for: "cpu", "cuda:0", or "simulated" whatever the machine."""
        return "simulated" if self.simulated else self.device

    @property
    def set_up(self) -> str:
        """Jobs of the same set-up can share a prepared workload."""
        return f"{self.recipe.name} on {self.where} with {sorted(self.knobs.cold().items())}"

    @property
    def process(self) -> str:
        """Jobs of the same process can share a worker. What is simulated runs no op: such jobs disturb each other in nothing, and a worker costs
        seconds to start. Code of a user's own gets a worker for each set-up all the same."""
        return "simulated" if self.simulated and not self.recipe.content else self.set_up

    @property
    def key(self) -> str:
        """Names what is measured: the same experiment, knobs, device, machine and budget give the same key."""
        what = {
            "experiment": self.recipe.name,
            "knobs": self.knobs.model_dump(),
            "device": self.device,
            "machine": self.machine.as_dict() if self.machine else None,
            "measured": self.measured.source if self.measured else None,
            "budget": [self.budget.steps, self.budget.seconds, self.budget.warmup],
        }
        if self.allocation is not None:
            from labkit.allocation.policy_file import policy_content

            what["policy"] = policy_content(self.allocation)
        if self.recipe.content:
            what["content"] = self.recipe.content
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Live:
    """What a frame of a live run carries besides.

    part        what was recorded since the frame before
    monitor     the latest reading of each sensor
    watching_s  CPU time that making frames has taken in the worker so far
    """

    part: Part
    monitor: Mapping[str, Reading]
    watching_s: float


@dataclass(frozen=True)
class Frame:
    """How far a run is: steps released, device time measured, and the share of its budget that is spent.

    late  a newer one has come already: what this one carries counts, but nobody needs to see it
    """

    step: int
    measured_ns: int
    share: float
    live: Live | None = None
    late: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a job ended, and what it left.

    costs    op name → the mean cost of its ops
    results  what the workload says of itself: the last loss, ...
    failure  "" or the reason; the traceback's last lines are in `detail`
    allocation  what of its policy was in force, and what was not: `labkit.allocation.ledger.Ledger.as_dict()`
    """

    status: Literal["ok", "failed", "cancelled"]
    failure: str
    trace: Trace | None
    wall_s: float
    notes: tuple[str, ...] = ()
    costs: Mapping[str, Cost] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    monitor: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""
    trace_file: Path | None = None
    allocation: Mapping[str, Any] = field(default_factory=dict)
