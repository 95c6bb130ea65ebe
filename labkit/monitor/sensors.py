"""A reading, and what a sensor is. Absent is never zero: what cannot be read is None with the reason.

The sampler reads sensors in a thread of its own while a run lasts; their summaries go into the run record.
"""

import math
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Reading:
    """One value read from a sensor.

    name    "process_cpu_share", "gpu_power_w", ...
    value   None where it could not be read; `reason` then says why
    unit    of the value: "share", "bytes", "W", ...
    """

    name: str
    value: float | None
    unit: str
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.value is None or math.isfinite(self.value):
            return
        object.__setattr__(self, "reason", f"the sensor gave {self.value}, which is not a finite number")
        object.__setattr__(self, "value", None)


class Sensor(Protocol):
    """Something that gives a few readings at a time, always under the same names."""

    name: str

    def read(self) -> list[Reading]:
        """The readings now; what cannot be read is absent. Called from one thread at a time."""
        ...

    def close(self) -> None:
        """Let go of what the sensor holds. May be called again."""
        ...


def sensor_units() -> dict[str, str]:
    """The unit of every reading that there can be, by name: the host's, the GPU's, then those around the run. Opens nothing."""
    from labkit.monitor import host, rapl, surroundings
    from labkit.monitor.nvml import NvmlSensor

    of_gpu = {reading.name: reading.unit for reading in NvmlSensor("", absent="not opened").read()}
    return host.UNITS | of_gpu | {rapl.NAME: rapl.UNIT} | surroundings.UNITS


def open_sensors(device: str, pid: int | None = None) -> list[Sensor]:
    """The sensors for a run on `device` ("cpu", "cuda:0", "simulated:h200"): the host; of a measured run the energy too, and the GPU.

    pid  the process whose tree is watched, this one where not given
    """
    from labkit.monitor.host import HostSensor
    from labkit.monitor.nvml import NvmlSensor, cuda_uuid
    from labkit.monitor.rapl import RaplSensor

    kind, _, index = device.partition(":")
    if kind == "simulated":
        return [HostSensor(pid)]
    if kind != "cuda":
        return [HostSensor(pid), RaplSensor()]
    uuid, reason = cuda_uuid(int(index or 0))
    return [HostSensor(pid), RaplSensor(), NvmlSensor(uuid, absent=reason)]
