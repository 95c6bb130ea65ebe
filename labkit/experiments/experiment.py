"""An experiment: a question, a kernel, a workload, and the knobs that may be turned. One file an experiment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import ExperimentError
from labkit.knobs import Knobs
from labkit.schedule.arrivals import Arrivals

RESERVED = {
    "name", "device", "seconds", "steps", "warmup", "out", "costs", "machine", "pool", "on_frame", "on_run", "axes", "alerts",
}  # fmt: skip
"""What `labkit.run` and its sisters call their own parameters."""


@dataclass(frozen=True)
class Experiment:
    """What can be run by name.

    question  what it answers, in one sentence
    knobs     the model that declares its knobs
    kernel    (device, workload, steps) → None
    prepare   (knobs, where: "cpu", "cuda:0" or "simulated") → workload; run once for each set of cold knobs
    widths    knobs → units of each lane role; applied again whenever the knobs change
    presets   named settings for people, as knob values
    arrivals  knobs → where requests come from, for a kernel that serves; None for one that goes on by itself
    content   what tells two of one name apart: a digest of a user's data and model; "" for those of the catalogue
    """

    name: str
    question: str
    knobs: type[Knobs]
    kernel: Callable[[Any, Any, Any], None]
    prepare: Callable[[Any, str], Any]
    widths: Callable[[Any], dict[str, int]]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    content: str = ""
    arrivals: Callable[[Any], Arrivals] | None = None

    def __post_init__(self) -> None:
        taken = RESERVED & set(self.knobs.model_fields)
        if taken:
            raise ExperimentError(f"experiment '{self.name}': a knob cannot be called {', '.join(sorted(taken))}")
