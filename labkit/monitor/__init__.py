"""What goes on beside a run: sensors that are read while it lasts, and the sampler that reads them.

    sensors.py   a reading, and what a sensor is    Reading, Sensor, open_sensors()
    host.py      CPU and memory                     HostSensor
    nvml.py      one NVIDIA GPU                     NvmlSensor
    rapl.py      energy of the processor            RaplSensor
    sampler.py   a thread that reads them           Sampler, start_monitor()
    surroundings.py  other processes, quota, clocks, read from outside the worker   Surroundings

Importing this package loads neither torch nor pynvml nor psutil: a sensor loads what it needs when it is opened.
"""

from labkit.monitor.host import HostSensor
from labkit.monitor.nvml import NvmlSensor
from labkit.monitor.rapl import RaplSensor
from labkit.monitor.sampler import Sampler, start_monitor
from labkit.monitor.sensors import Reading, Sensor, open_sensors
from labkit.monitor.surroundings import Surroundings

__all__ = ["HostSensor", "NvmlSensor", "RaplSensor", "Reading", "Sampler", "Sensor", "Surroundings", "open_sensors", "start_monitor"]
