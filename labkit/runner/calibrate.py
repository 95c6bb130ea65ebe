"""Calibration: this machine measured, so that predictions and rooflines rest on it and not on a data sheet.

Every figure is the median of at least five repeats and says how it was measured. Between the probes one fixed piece of
work is timed again and again: how much it varies is the noise that every other measurement here has, too.
A probe that fails leaves its figures absent, with a note; a guess never stands in.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median, quantiles

from labkit.device.cores import available_cores
from labkit.device.machine import Figure, Machine
from labkit.device.open import cuda_count
from labkit.runner.probe import Probe, durations_ns, one_torch_thread
from labkit.runner.probe_device import copy_probes, device_probes
from labkit.runner.probe_host import host_probes, matrix_product
from labkit.runner.probe_passport import passport_probes
from labkit.units import format_percent

Progress = Callable[[str], None]
"""Told, in words, what is measured next."""

NOISY = 0.1
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Calibration:
    """This machine, and what people should know about how it was measured."""

    machine: Machine
    notes: tuple[str, ...]


def calibrate(progress: Progress | None = None, seconds_per_probe: float = 0.7) -> Calibration:
    """Measure this machine, in about ten seconds on a CPU and twenty with a GPU. Nothing is written.

    The cores should be idle meanwhile. Raises only what `progress` raises.
    """
    gpu = cuda_count()[0] > 0
    kind = "cuda" if gpu else "cpu"
    return run_probes(_probes(gpu), _label(gpu), kind, seconds_per_probe, progress or (lambda words: None))


def run_probes(
    probes: list[Probe], label: str, kind: str, seconds_per_probe: float, progress: Progress
) -> Calibration:
    """The machine that these probes find."""
    figures: dict[str, Figure] = {}
    notes: list[str] = []
    noise_ns: list[int] = []
    for probe in probes:
        progress(probe.words)
        noise_ns += _fixed_work_ns(seconds_per_probe)
        try:
            measured = probe.measure(seconds_per_probe)
        except Exception as error:  # a probe may fail in any way: its figures are absent, the others are not
            notes.append(f"{probe.words} could not be measured: {type(error).__name__}: {error}")
            continue
        figures |= _figures(probe, measured, notes)
    noise = _spread(noise_ns)
    how = f"{len(noise_ns)} timings of one matrix product between the other probes; interquartile range ÷ median"
    figures["noise_share"] = _figure(noise, how)
    if noise > NOISY:
        notes.append(f"the same work took times that differ by {format_percent(noise)}: something else uses this machine")
    return Calibration(Machine("this", label, "cuda" if kind == "cuda" else "cpu", figures), tuple(notes))


def _probes(gpu: bool) -> list[Probe]:
    """The host, the device's overheads, and the link: a GPU's, or what stands for it on a CPU."""
    if not gpu:
        return [*host_probes(), *device_probes(), *copy_probes(), *passport_probes()]
    from labkit.runner.probe_cuda import cuda_probes

    return [*host_probes(), *device_probes(), *cuda_probes(), *passport_probes()]


def _figures(probe: Probe, measured: Mapping[str, float], notes: list[str]) -> dict[str, Figure]:
    """The figures of one probe that can be right; the others are noted."""
    for name, value in measured.items():
        if not (math.isfinite(value) and value > 0):
            notes.append(f"{name} was measured as {value}, which cannot be: it is left out")
    return {name: _figure(value, probe.how) for name, value in measured.items() if math.isfinite(value) and value > 0}


def _figure(value: float, how: str) -> Figure:
    return Figure(float(value), f"measured by labkit calibrate on {date.today().isoformat()}: {how}")


def _fixed_work_ns(seconds_per_probe: float) -> list[int]:
    with one_torch_thread():
        return durations_ns(matrix_product(384), min(seconds_per_probe / 20, 0.05))


def _spread(durations: list[int]) -> float:
    """Interquartile range ÷ median."""
    low, _, high = quantiles(durations, n=4)
    return (high - low) / median(durations)


def _label(gpu: bool) -> str:
    """`this machine (NVIDIA L4)`, `this machine (2 cores of AMD EPYC)`."""
    if gpu:
        import torch

        return f"this machine ({torch.cuda.get_device_name(0)})"
    count = available_cores()
    return f"this machine ({count} core{'s' if count > 1 else ''} of {_cpu_name()})"


def _cpu_name() -> str:
    """What Linux calls the processor, else what Python does."""
    try:
        lines = CPUINFO.read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine() or "unknown CPU"
