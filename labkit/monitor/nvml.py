"""One NVIDIA GPU as its driver sees it, through NVML. Each field that cannot be read is absent, alone, with its reason.

NVML numbers the GPUs its own way, whatever CUDA_VISIBLE_DEVICES says: a GPU is found by its UUID. A PCIe rate is counted
by the driver over 20 ms, during which the reading thread sleeps.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from labkit.monitor.process_tree import family_pids
from labkit.monitor.sensors import Reading

NOT_AVAILABLE = frozenset({-1, 2**32 - 1, 2**64 - 1})
"""How NVML says "no value" without an error."""

NOT_SUPPORTED = 3
"""NVML's error code."""

SW_POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x04, 0x08, 0x20, 0x40, 0x80
_THROTTLES = {
    "gpu_throttled_by_power": SW_POWER_CAP | HW_POWER_BRAKE,
    "gpu_throttled_by_heat": SW_THERMAL | HW_THERMAL,
    "gpu_throttled_by_hardware": HW_SLOWDOWN,
    "gpu_throttled_by_power_brake": HW_POWER_BRAKE,
}
_UNITS = {
    "gpu_utilization": "share of time with a kernel running",
    "gpu_memory_used_bytes": "bytes",
    "gpu_power_w": "W",
    "gpu_sm_clock_hz": "Hz",
    "gpu_temperature_c": "°C",
    "gpu_pcie_tx_bytes_per_s": "bytes/s",
    "gpu_pcie_rx_bytes_per_s": "bytes/s",
    "gpu_energy_j": "J",
    **dict.fromkeys(_THROTTLES, "1 while throttled, else 0"),
    "gpu_other_processes": "processes",
}


class NvmlSensor:
    """The fields of one GPU.

    gpu_utilization              NVML's: share of time with any kernel running, however small
    gpu_memory_used_bytes        by everybody
    gpu_power_w, gpu_sm_clock_hz, gpu_temperature_c
    gpu_pcie_tx_bytes_per_s      sent by the GPU (device to host); `rx` received by it
    gpu_energy_j                 since the sensor was opened
    gpu_throttled_by_power       1 while clocks are held down for it; likewise `_by_heat` and `_by_hardware`; `_by_power_brake` is
                                 the part of it that the power supply asks for
    gpu_other_processes          that compute on it and are neither this process's family nor itself

    uuid    the GPU's, as torch or NVML gives it
    nvml    the module to ask, the installed pynvml where not given
    family  the processes that are ours, by id; this process, what started it, and all that these have started where not given
    absent  why there is nothing to read; "" where there is
    """

    name = "gpu"

    def __init__(self, uuid: str, nvml: ModuleType | None = None, absent: str = "", family: Callable[[], set[int]] = family_pids):
        self.label = ""
        self.driver = ""
        self._nvml: Any = nvml
        self._handle: Any = None
        self._mig = False
        self._family = family
        self._ours: set[int] = set()
        self._strangers: set[int] = set()
        self._energy_before_j: float | None = None
        self._failure = absent or self._open(uuid)
        if not self._failure:
            self._energy_before_j = self._field("gpu_energy_j", self._energy_j).value

    def read(self) -> list[Reading]:
        """Every field, in the order of the class's description."""
        if self._failure:
            return [Reading(name, None, unit, self._failure) for name, unit in _UNITS.items()]
        nvml, gpu = self._nvml, self._handle
        sent, received = nvml.NVML_PCIE_UTIL_TX_BYTES, nvml.NVML_PCIE_UTIL_RX_BYTES
        return [
            self._field("gpu_utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu, 1 / 100),
            self._field("gpu_memory_used_bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(gpu).used),
            self._field("gpu_power_w", lambda: nvml.nvmlDeviceGetPowerUsage(gpu), 1 / 1000),
            self._field("gpu_sm_clock_hz", lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM), 1e6),
            self._field("gpu_temperature_c", lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
            self._field("gpu_pcie_tx_bytes_per_s", lambda: nvml.nvmlDeviceGetPcieThroughput(gpu, sent), 1e3),
            self._field("gpu_pcie_rx_bytes_per_s", lambda: nvml.nvmlDeviceGetPcieThroughput(gpu, received), 1e3),
            self._field("gpu_energy_j", self._energy_since_j),
            *self._throttles(),
            self._other_processes(),
        ]

    def close(self) -> None:
        """Let go of NVML. May be called again."""
        if self._handle is None:
            return
        self._handle, self._failure = None, "the sensor is closed"
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            pass  # the GPU or its driver is gone: there is nothing left to let go of

    def _open(self, uuid: str) -> str:
        """Find the GPU; why it cannot be found, or ""."""
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
        except ImportError as error:
            return f"NVML's Python library (nvidia-ml-py) cannot be imported: {error}"
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            return f"NVML cannot be used: {error}"
        try:
            self._handle = _handle_of(nvml, uuid)
            self._mig = _is_mig(nvml, self._handle)
            self.label = _text(nvml.nvmlDeviceGetName(self._handle))
            self.driver = _text(nvml.nvmlSystemGetDriverVersion())
        except nvml.NVMLError as error:
            if self._handle is None:
                nvml.nvmlShutdown()
                return f"NVML does not find the GPU {uuid}: {error}"
        return ""

    def _field(self, name: str, ask: Callable[[], float], scale: float = 1.0) -> Reading:
        try:
            value = ask()
        except self._nvml.NVMLError as error:
            return Reading(name, None, _UNITS[name], self._words(error))
        except (AttributeError, TypeError) as error:  # a library older or newer than this code
            return Reading(name, None, _UNITS[name], f"this pynvml cannot give it: {error}")
        if value in NOT_AVAILABLE:
            return Reading(name, None, _UNITS[name], "NVML says that it is not available")
        return Reading(name, value * scale, _UNITS[name])

    def _words(self, error: Exception) -> str:
        unsupported = getattr(error, "value", None) == NOT_SUPPORTED
        return f"{error}: a GPU divided by MIG does not report it" if self._mig and unsupported else str(error)

    def _throttles(self) -> list[Reading]:
        ask = getattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        ask = ask or getattr(self._nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        if ask is None:
            return [Reading(name, None, _UNITS[name], "this pynvml cannot give it") for name in _THROTTLES]
        mask = self._field("gpu_throttled_by_power", lambda: ask(self._handle))
        if mask.value is None:
            return [Reading(name, None, _UNITS[name], mask.reason) for name in _THROTTLES]
        held = int(mask.value)
        return [Reading(name, float(bool(held & bits)), _UNITS[name]) for name, bits in _THROTTLES.items()]

    def _other_processes(self) -> Reading:
        """How many strangers compute on the GPU. The family is looked for only when a process is there that was not before."""
        name, listed = "gpu_other_processes", set[int]()

        def ask() -> int:
            listed.update(process.pid for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
            return len(listed)

        count = self._field(name, ask)
        if count.value is None:
            return count
        if listed - self._ours - self._strangers:
            self._ours = self._family()
        self._strangers = listed - self._ours
        if not listed & self._ours:  # they go by other numbers there, or nothing of ours has come to the GPU yet
            return Reading(name, None, _UNITS[name], "NVML lists no process of ours, so that it cannot be told whose the others are")
        return Reading(name, float(len(self._strangers)), _UNITS[name])

    def _energy_j(self) -> float:
        return self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000

    def _energy_since_j(self) -> float:
        now = self._energy_j()
        if self._energy_before_j is None:
            self._energy_before_j = now
        return now - self._energy_before_j


def cuda_uuid(index: int) -> tuple[str, str]:
    """The UUID of a CUDA device as torch numbers them, and why there is none."""
    try:
        import torch

        return str(torch.cuda.get_device_properties(index).uuid), ""
    except (ImportError, RuntimeError, AssertionError, AttributeError) as error:
        return "", f"torch does not tell the UUID of cuda:{index}: {error}"


def _handle_of(nvml: Any, uuid: str) -> Any:
    """NVML's handle. torch leaves the prefix of a UUID out; old libraries want bytes."""
    names = [uuid] if uuid.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"]
    failure: Exception | None = None
    for name in names:
        try:
            try:
                return nvml.nvmlDeviceGetHandleByUUID(name)
            except TypeError:
                return nvml.nvmlDeviceGetHandleByUUID(name.encode())
        except nvml.NVMLError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _is_mig(nvml: Any, handle: Any) -> bool:
    """Whether this is a MIG instance, or a GPU that is divided into some."""
    for ask in (lambda: nvml.nvmlDeviceIsMigDeviceHandle(handle), lambda: nvml.nvmlDeviceGetMigMode(handle)[0]):
        try:
            if ask():
                return True
        except (nvml.NVMLError, AttributeError):
            continue
    return False


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
