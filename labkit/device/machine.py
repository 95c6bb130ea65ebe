"""A machine: its figures, each with the source it came from. Unknown is absent, never a guess.

One YAML file a machine, under `machines/` or in the user's configuration folder (`this`, written by
`labkit calibrate`). The figures feed the simulated device's cost model and the roofline.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from labkit.errors import MachineError

SHIPPED = Path(__file__).parent / "machines"

FIGURES: dict[str, str] = {
    "cores": "cores that this process may use",
    "decode_pixels_per_s": "JPEG pixels decoded and resized per second on one core",
    "host_flop_per_s": "fp32 FLOP/s of one core (matrix product)",
    "host_bytes_per_s": "bytes per second that one core reads and writes in a streaming pass",
    "dram_bytes_per_s": "DRAM bytes per second, all cores",
    "link_h2d_bytes_per_s": "host to device, pinned memory",
    "link_d2h_bytes_per_s": "device to host, pinned memory",
    "link_pageable_bytes_per_s": "between pageable host memory and the device",
    "link_latency_ns": "a copy of nothing",
    "link_duplex_share": "share of its rate that each direction keeps while both copy at once",
    "copy_engines": "copy engines: with one a copy waits for the other direction, with two or more (or none given) it does not",
    "gpu_flop_per_s": "peak FLOP/s of 16-bit types, dense",
    "gpu_fp32_flop_per_s": "peak FLOP/s that fp32 tensors reach in PyTorch's convolutions: TF32 where there is one, dense",
    "gpu_flop_share": "share of the peak that large kernels reach",
    "hbm_bytes_per_s": "device memory bandwidth, peak",
    "hbm_share": "share of the peak bandwidth that large kernels reach",
    "gpu_min_kernel_ns": "shortest kernel",
    "gpu_memory_bytes": "device memory",
    "launch_ns": "host time to enqueue one kernel",
    "submit_ns": "host time of one submit, without launches",
    "wake_ns": "from the end of an op to the host running again after a blocking wait",
    "dispatch_ns": "from an op being ready to its start on an idle thread lane",
    "corun_share": "speed that a core keeps while the others are busy",
    "clock_ns": "reading the clock once",
    "clock_resolution_ns": "smallest step of the clock",
    "host_bf16_flop_per_s": "bf16 FLOP/s of one core (matrix product)",
    "host_fp16_flop_per_s": "fp16 FLOP/s of one core (matrix product)",
    "thread_scaling_share": "speed that each core keeps while all of them compute",
    "round_noise_share": "how far rounds of the same work lie apart (standard deviation)",
    "noise_share": "relative spread of a repeated fixed piece of work",
    "power_w": "board power limit",
    "idle_power_w": "board power while nothing runs",
    "price_usd_per_hour": "price of renting one",
}

OF_HAND = ("power_w", "idle_power_w", "price_usd_per_hour")
"""Figures that only people know, of any machine."""


@dataclass(frozen=True)
class Figure:
    """One figure of a machine: its value in the unit its name ends in, and where it came from."""

    value: float
    source: str


@dataclass(frozen=True)
class Machine:
    """A machine by name: what computes on it (`kind`: "cuda" a GPU, "cpu" threads), and its figures."""

    name: str
    label: str
    kind: Literal["cuda", "cpu"]
    figures: Mapping[str, Figure]

    def __getitem__(self, name: str) -> float:
        """The value of a figure. Raises MachineError where the machine's file does not give it."""
        figure = self.figures.get(name)
        if figure is None:
            meaning = FIGURES.get(name, "not a figure that labkit knows")
            raise MachineError(f"machine '{self.name}' has no figure '{name}' ({meaning}); add it with its source")
        return figure.value

    def get(self, name: str) -> float | None:
        """The value of a figure, None where it is unknown."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value

    def with_figures(self, source: str, **values: float) -> "Machine":
        """This machine with some figures changed, for what-if; their source becomes `source`, and the label says "changed"."""
        where = f"machine '{self.name}'"
        changed = {name: _figure(where, name, {"value": value, "source": source}) for name, value in values.items()}
        label = self.label if not changed or "(changed" in self.label else f"{self.label} (changed)"
        return replace(self, label=label, figures={**self.figures, **changed})

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as in the YAML file."""
        figures = {name: {"value": figure.value, "source": figure.source} for name, figure in self.figures.items()}
        return {"name": self.name, "label": self.label, "kind": self.kind, "figures": figures}


def machine_from_dict(data: Any, where: str) -> Machine:
    """A machine from plain data. Raises MachineError: what is missing or wrong, and where."""
    if not isinstance(data, dict) or {"name", "label", "kind", "figures"} - set(data):
        raise MachineError(f"{where}: a machine file needs name, label, kind and figures")
    if data["kind"] not in ("cuda", "cpu"):
        raise MachineError(f"{where}: kind {data['kind']!r} is not allowed; allowed: cuda, cpu")
    if not isinstance(data["figures"], dict):
        raise MachineError(f"{where}: figures must be a table of name: {{value, source}}")
    figures = {name: _figure(where, name, entry) for name, entry in data["figures"].items()}
    return Machine(str(data["name"]), str(data["label"]), data["kind"], figures)


def load_machine(name: str) -> Machine:
    """The machine of this name: `this` (calibrated here), or one that labkit ships. Raises MachineError."""
    path = this_machine_path() if name == "this" else SHIPPED / f"{name}.yaml"
    if name not in machine_names():
        if name == "this":
            raise MachineError(f"this machine has not been calibrated ({path} is missing): run `labkit calibrate`")
        raise MachineError(f"there is no machine '{name}'; there are: {', '.join(machine_names())}")
    return _read_once(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read_once(path: Path, written_ns: int) -> Machine:
    """The machine of a file as it was written then: reading one costs milliseconds, and labels are asked for often."""
    return read_machine(path)


def read_machine(path: Path) -> Machine:
    """Read one machine file."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise MachineError(f"cannot read {path}: {error}") from error
    return machine_from_dict(data, str(path))


def write_machine(machine: Machine, path: Path) -> None:
    """Write one machine file; a reader never sees half of it. Raises OSError where the disk does."""
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(yaml.safe_dump(machine.as_dict(), sort_keys=False, allow_unicode=True), encoding="utf-8")
    temporary.replace(path)


def with_figures_of_hand(machine: Machine, path: Path) -> Machine:
    """The machine with those figures of the file at `path` that no measurement finds: power and price. As it is where there is no file.

    For a new calibration, which would else forget what somebody has written there.
    """
    if not path.is_file():
        return machine
    written = read_machine(path).figures
    return replace(machine, figures={**{name: written[name] for name in OF_HAND if name in written}, **machine.figures})


def machine_names() -> list[str]:
    """The machines that can be simulated here, `this` first where it has been calibrated."""
    shipped = sorted(path.stem for path in SHIPPED.glob("*.yaml"))
    return (["this"] if this_machine_path().is_file() else []) + shipped


def this_machine_path() -> Path:
    """Where the description of this machine is kept: `$LABKIT_HOME`, or the user's configuration folder."""
    import os

    home = os.environ.get("LABKIT_HOME")
    if home:
        return Path(home) / "machines" / "this.yaml"
    from platformdirs import user_config_path

    return user_config_path("labkit") / "machines" / "this.yaml"


def _figure(where: str, name: str, entry: Any) -> Figure:
    _check_name(where, name)
    if not isinstance(entry, dict) or set(entry) != {"value", "source"} or not str(entry["source"]).strip():
        raise MachineError(f"{where}: figure '{name}' needs a value and a source, and nothing else")
    value = entry["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise MachineError(f"{where}: figure '{name}' has the value {value!r}; a finite number of 0 or more is allowed")
    return Figure(float(value), str(entry["source"]))


def _check_name(where: str, name: str) -> None:
    if name not in FIGURES:
        raise MachineError(f"{where}: there is no figure '{name}'; there are: {', '.join(FIGURES)}")
