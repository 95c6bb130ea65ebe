"""From a device's name to the device: `cpu`, `cuda`, `cuda:1`, `simulated:h200`, or `auto`.

No silent substitution: asking for `cuda` where there is none is an error that names what there is.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labkit.device.cost_model import MeasuredCosts
from labkit.device.cpu import CpuDevice
from labkit.device.device import Device
from labkit.device.machine import Machine, load_machine, machine_names
from labkit.device.simulated import SimulatedDevice
from labkit.errors import MachineError, NoSuchDevice
from labkit.trace import Recorder

CPU_LABEL = "CPU threads"
_DRIVER_NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/nvhost-ctrl", "/dev/nvgpu")


@dataclass(frozen=True)
class Choice:
    """A device that may be named here; `reason` says why it is not available."""

    name: str
    label: str
    available: bool
    reason: str = ""


@dataclass(frozen=True)
class Opening:
    """How to open a device.

    widths    units of each lane role
    shares    cores of each thread of a role (cpu device)
    measured  op times for a simulated device to use before its machine's figures
    machine   a changed machine for a simulated device, for what-if
    cap       rows that the trace keeps at most
    """

    widths: Mapping[str, int]
    shares: Mapping[str, int] | None = None
    measured: MeasuredCosts | None = None
    machine: Machine | None = None
    cap: int = 1_000_000


def resolve_device(name: str) -> str:
    """The full name of a device: `auto` becomes cuda:0 where there is one, else cpu.

    Raises NoSuchDevice for a name that is not one, or a GPU that is not here.
    """
    kind, _, detail = name.partition(":")
    if name == "auto":
        return "cuda:0" if cuda_count()[0] else "cpu"
    if name == "cpu":
        return name
    if kind == "cuda":
        return _resolve_cuda(name, detail)
    if kind == "simulated":
        load_machine(detail)  # raises: there is none of this name, and no other stands in for it
        return name
    raise NoSuchDevice(f"there is no device {name!r}; allowed: {', '.join(_allowed())}")


def open_device(name: str, opening: Opening | None = None) -> Device:
    """Open a device by name. Close it when done. Raises NoSuchDevice, MachineError, NotEnoughThreads."""
    opening = opening or Opening(widths={})
    recorder = Recorder(opening.cap)
    widths = dict(opening.widths)
    if opening.machine is not None and name.startswith("simulated"):
        return SimulatedDevice(opening.machine, widths=widths, measured=opening.measured, recorder=recorder)
    name = resolve_device(name)
    if name == "cpu":
        return CpuDevice(widths=widths, shares=dict(opening.shares or {}), recorder=recorder)
    kind, _, detail = name.partition(":")
    if kind == "cuda":
        from labkit.device.cuda import CudaDevice

        return CudaDevice(int(detail), widths=widths, recorder=recorder)
    return SimulatedDevice(load_machine(detail), widths=widths, measured=opening.measured, recorder=recorder)


def device_label(name: str) -> str:
    """What people call a device of this name: `CPU threads`, `GPU 0`, `simulated H200`. Raises MachineError."""
    kind, _, detail = name.partition(":")
    if kind == "simulated":
        return f"simulated {load_machine(detail).label}"
    return CPU_LABEL if kind == "cpu" else f"GPU {detail or 0}"


def available_devices() -> list[Choice]:
    """Every device that may be named here, with the reason where one is not available."""
    count, reason = cuda_count()
    gpus = [Choice(f"cuda:{index}", device_label(f"cuda:{index}"), True) for index in range(count)]
    simulated = [_simulated(name) for name in machine_names()]
    return [*gpus, *([] if gpus else [Choice("cuda", "GPU", False, reason)]), Choice("cpu", CPU_LABEL, True), *simulated]


@cache
def cuda_count() -> tuple[int, str]:
    """How many CUDA devices torch sees, and why there are none. Loads torch only where there is a driver."""
    if sys.platform.startswith("linux") and not any(Path(node).exists() for node in _DRIVER_NODES):
        return 0, "this machine has no GPU driver"
    try:
        import torch
    except ImportError as error:
        return 0, f"torch cannot be imported: {error}"
    if torch.version.cuda is None:
        return 0, "this torch is built without CUDA"
    if not torch.cuda.is_available():
        return 0, "torch sees no CUDA GPU or driver"
    return torch.cuda.device_count(), ""


def _simulated(machine: str) -> Choice:
    try:
        return Choice(f"simulated:{machine}", device_label(f"simulated:{machine}"), True)
    except MachineError as error:
        return Choice(f"simulated:{machine}", f"simulated {machine}", False, str(error))


def _resolve_cuda(name: str, detail: str) -> str:
    count, reason = cuda_count()
    if not count:
        raise NoSuchDevice(f"there is no {name} here: {reason}; use cpu, or simulated:h200 for a prediction")
    if detail and not detail.isdecimal():
        raise NoSuchDevice(f"{name!r} is not a device; allowed: cuda, cuda:0 to cuda:{count - 1}")
    if int(detail or 0) >= count:
        raise NoSuchDevice(f"there is no {name} here; there are cuda:0 to cuda:{count - 1}")
    return f"cuda:{int(detail or 0)}"


def _allowed() -> list[str]:
    return ["auto", "cpu", "cuda", "cuda:N", *(f"simulated:{name}" for name in machine_names())]
