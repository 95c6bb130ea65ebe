"""The monitor strip: the fixed row of readings that the panel shows while a run lasts. What is absent says why.

The row is always as long, so that nothing jumps: a GPU's dials stay in it on the cpu, absent for a reason. The GPU's
utilization is NVML's, never the busy share of the compute lane.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from labkit.device.open import cuda_count
from labkit.monitor.quantity import SHARE, plain_unit, quantity_text
from labkit.monitor.sensors import Reading, sensor_units
from labkit.units import ABSENT, format_percent

LABELS = {
    "process_cpu_share": "CPU (process)",
    "machine_cpu_share": "CPU (machine)",
    "process_rss_bytes": "memory (process)",
    "memory_available_bytes": "memory free",
    "gpu_utilization": "GPU utilization",
    "gpu_memory_used_bytes": "GPU memory",
    "gpu_power_w": "power",
    "gpu_pcie_rx_bytes_per_s": "PCIe in",
    "gpu_pcie_tx_bytes_per_s": "PCIe out",
}
"""The row: a sensor's reading → what people call it. PCIe as the GPU sees it: in is host to device."""

SIMULATED = "simulated: there is nothing to sense"
ON_THE_CPU = "the run is on the cpu"
NOT_YET = "no reading yet"


@dataclass(frozen=True, slots=True)
class Dial:
    """One place of the strip.

    text    for people: "73 %", "1.2 GiB", or a dash where it is absent
    value   in `unit`; None where it is absent, for the `reason`
    """

    name: str
    label: str
    text: str
    value: float | None
    unit: str
    reason: str | None = None


def strip(latest: Mapping[str, Reading], device: str) -> tuple[Dial, ...]:
    """The row for a run on `device` ("cpu", "cuda:0", "simulated:h200"), from the last reading of each sensor.

    Beside a simulated device what was read of the host is shown as this host's, which the simulation knows nothing of.
    """
    simulated = device.startswith("simulated")
    units = sensor_units()
    dials = []
    for name, label in LABELS.items():
        of_gpu = name.startswith("gpu_")
        reason = _absence(device) if of_gpu else ""
        reading = None if reason else latest.get(name)
        if reading is None:
            reading = Reading(name, None, units[name], reason or (SIMULATED if simulated else NOT_YET))
        dials.append(_dial(reading, f"{label}, this host" if simulated and not of_gpu else label))
    return tuple(dials)


def _absence(device: str) -> str:
    """Why a run on this device has no GPU to read; "" where it has."""
    kind = device.partition(":")[0]
    if kind == "simulated":
        return SIMULATED
    return "" if kind == "cuda" else cuda_count()[1] or ON_THE_CPU


def _dial(reading: Reading, label: str) -> Dial:
    unit = plain_unit(reading.unit)
    if reading.value is None:
        return Dial(reading.name, label, ABSENT, None, unit, reading.reason or "the sensor gave no reason")
    text = format_percent(reading.value) if unit == SHARE else quantity_text(reading.value, unit)
    return Dial(reading.name, label, text, reading.value, unit)
