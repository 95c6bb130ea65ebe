"""What goes on beside a run: sensors that are read while it lasts, and the sampler that reads them.

    sensors.py   a reading, and what a sensor is    Reading, Sensor, open_sensors()
    host.py      CPU and memory                     HostSensor
    nvml.py      one NVIDIA GPU                     NvmlSensor
    sampler.py   a thread that reads them           Sampler, start_monitor()

Importing this package loads neither torch nor pynvml nor psutil: a sensor loads what it needs when it is opened.
"""

from labkit.monitor.host import HostSensor
from labkit.monitor.nvml import NvmlSensor
from labkit.monitor.sampler import Sampler, start_monitor
from labkit.monitor.sensors import Reading, Sensor, open_sensors

__all__ = ["HostSensor", "NvmlSensor", "Reading", "Sampler", "Sensor", "open_sensors", "start_monitor"]
