"""The GPU sensor on a fake NVML: each field fails alone, and a GPU is found by its UUID."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from labkit.monitor import NvmlSensor, open_sensors
from labkit.monitor.nvml import HW_POWER_BRAKE, HW_SLOWDOWN, HW_THERMAL, SW_POWER_CAP, SW_THERMAL
from labkit.monitor.process_tree import family_pids


class NVMLError(Exception):
    def __init__(self, words: str, value: int = 999):
        super().__init__(words)
        self.value = value


class FakeNvml:
    """Two GPUs; the test changes what they say. `failing` maps a function's name to what it raises."""

    NVMLError = NVMLError
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self):
        self.failing: dict[str, Exception] = {}
        self.handles = {"GPU-aaa": "first", "GPU-bbb": "second", "MIG-ccc": "slice"}
        self.throttle = 0
        self.energy_mj = 5_000_000
        self.used = 2_000
        self.pids = [os.getpid()]
        self.open = 0

    def _checked(self, name, value):
        if name in self.failing:
            raise self.failing[name]
        return value

    def nvmlInit(self):
        self._checked("nvmlInit", None)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.handles:
            raise NVMLError("Not Found", 6)
        return self.handles[uuid]

    def nvmlDeviceGetName(self, gpu):
        return f"Fake {gpu}"

    def nvmlSystemGetDriverVersion(self):
        return "600.01"

    def nvmlDeviceIsMigDeviceHandle(self, gpu):
        return gpu == "slice"

    def nvmlDeviceGetMigMode(self, gpu):
        raise NVMLError("Not Supported", 3)

    def nvmlDeviceGetUtilizationRates(self, gpu):
        return self._checked("utilization", SimpleNamespace(gpu=40, memory=10))

    def nvmlDeviceGetMemoryInfo(self, gpu):
        return self._checked("memory", SimpleNamespace(used=self.used))

    def nvmlDeviceGetPowerUsage(self, gpu):
        return self._checked("power", 350_000)

    def nvmlDeviceGetClockInfo(self, gpu, clock):
        return self._checked("clock", 1980)

    def nvmlDeviceGetTemperature(self, gpu, sensor):
        return self._checked("temperature", 55)

    def nvmlDeviceGetPcieThroughput(self, gpu, counter):
        return self._checked("pcie", {0: 100, 1: 2000}[counter])

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu):
        return self._checked("energy", self.energy_mj)

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu):
        return self._checked("throttle", self.throttle)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu):
        return self._checked("processes", [SimpleNamespace(pid=pid, usedGpuMemory=0) for pid in self.pids])


@pytest.fixture
def nvml():
    return FakeNvml()


def values(sensor) -> dict[str, float | None]:
    return {reading.name: reading.value for reading in sensor.read()}


def reasons(sensor) -> dict[str, str | None]:
    return {reading.name: reading.reason for reading in sensor.read()}


def test_every_field_in_the_unit_that_its_name_says(nvml):
    sensor = NvmlSensor("GPU-aaa", nvml)
    nvml.energy_mj += 7_500
    assert values(sensor) == {
        "gpu_utilization": 0.4,
        "gpu_memory_used_bytes": 2000.0,
        "gpu_power_w": 350.0,
        "gpu_sm_clock_hz": 1.98e9,
        "gpu_temperature_c": 55.0,
        "gpu_pcie_tx_bytes_per_s": 100e3,
        "gpu_pcie_rx_bytes_per_s": 2e6,
        "gpu_energy_j": 7.5,
        "gpu_throttled_by_power": 0.0,
        "gpu_throttled_by_heat": 0.0,
        "gpu_throttled_by_hardware": 0.0,
        "gpu_throttled_by_power_brake": 0.0,
        "gpu_other_processes": 0.0,
    }


@pytest.mark.parametrize(("uuid", "found"), [("bbb", "second"), ("GPU-bbb", "second"), ("ccc", "slice"), ("MIG-ccc", "slice")])
def test_a_gpu_is_found_by_its_uuid_with_or_without_prefix(nvml, uuid, found):
    assert NvmlSensor(uuid, nvml).label == f"Fake {found}"


def test_an_unknown_uuid_is_an_absence_that_names_it_and_leaves_nvml_closed(nvml):
    sensor = NvmlSensor("zzz", nvml)
    assert set(reasons(sensor).values()) == {"NVML does not find the GPU zzz: Not Found"}
    assert set(values(sensor).values()) == {None}
    assert nvml.open == 0


def test_an_old_library_takes_and_gives_bytes(nvml):
    found_by_text = nvml.nvmlDeviceGetHandleByUUID

    def by_bytes(uuid):
        if isinstance(uuid, str):
            raise TypeError("bytes or integer address expected instead of str instance")
        return found_by_text(uuid.decode())

    nvml.nvmlDeviceGetHandleByUUID = by_bytes
    nvml.nvmlDeviceGetName = lambda gpu: b"Old " + gpu.encode()
    nvml.nvmlSystemGetDriverVersion = lambda: b"390.1"
    sensor = NvmlSensor("bbb", nvml)
    assert (sensor.label, sensor.driver) == ("Old second", "390.1")


@pytest.mark.parametrize(
    ("failing", "absent"),
    [
        ("utilization", {"gpu_utilization"}),
        ("memory", {"gpu_memory_used_bytes"}),
        ("power", {"gpu_power_w"}),
        ("clock", {"gpu_sm_clock_hz"}),
        ("temperature", {"gpu_temperature_c"}),
        ("pcie", {"gpu_pcie_tx_bytes_per_s", "gpu_pcie_rx_bytes_per_s"}),
        ("energy", {"gpu_energy_j"}),
        ("throttle", {f"gpu_throttled_by_{what}" for what in ("power", "heat", "hardware", "power_brake")}),
        ("processes", {"gpu_other_processes"}),
    ],
)
def test_a_field_that_fails_is_absent_alone_with_its_reason(nvml, failing, absent):
    sensor = NvmlSensor("aaa", nvml)
    nvml.failing[failing] = NVMLError("Not Supported", 3)
    read = values(sensor)
    assert {name for name, value in read.items() if value is None} == absent
    assert {reasons(sensor)[name] for name in absent} == {"Not Supported"}


def test_a_lost_gpu_makes_every_field_absent_and_raises_nothing(nvml):
    sensor = NvmlSensor("aaa", nvml)
    lost = NVMLError("GPU is lost", 15)
    nvml.failing = dict.fromkeys(["utilization", "memory", "power", "clock", "temperature", "pcie", "energy", "throttle", "processes"], lost)
    assert set(reasons(sensor).values()) == {"GPU is lost"}


def test_a_mig_instance_says_why_it_has_no_utilization(nvml):
    sensor = NvmlSensor("ccc", nvml)
    nvml.failing["utilization"] = NVMLError("Not Supported", 3)
    nvml.failing["power"] = NVMLError("GPU is lost", 15)
    assert "MIG does not report it" in reasons(sensor)["gpu_utilization"]
    assert reasons(sensor)["gpu_power_w"] == "GPU is lost"


@pytest.mark.parametrize("value", [-1, 2**32 - 1, 2**64 - 1])
def test_a_value_that_means_not_available_is_absent(nvml, value):
    nvml.used = value
    assert values(NvmlSensor("aaa", nvml))["gpu_memory_used_bytes"] is None


@pytest.mark.parametrize(
    ("mask", "throttled"),
    [
        (0x01, set()),  # idle is not throttled
        (SW_POWER_CAP, {"power"}),
        (HW_POWER_BRAKE | HW_SLOWDOWN, {"power", "power_brake", "hardware"}),
        (SW_THERMAL, {"heat"}),
        (HW_THERMAL | SW_POWER_CAP, {"heat", "power"}),
    ],
)
def test_what_holds_the_clocks_down_is_told_apart(nvml, mask, throttled):
    sensor = NvmlSensor("aaa", nvml)
    nvml.throttle = mask
    read = values(sensor)
    assert {kind for kind in ("power", "heat", "hardware", "power_brake") if read[f"gpu_throttled_by_{kind}"] == 1.0} == throttled


def test_the_older_name_of_the_throttle_question_is_understood(nvml):
    class Older(FakeNvml):
        nvmlDeviceGetCurrentClocksEventReasons = None

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu):
            return SW_THERMAL

    assert values(NvmlSensor("aaa", Older()))["gpu_throttled_by_heat"] == 1.0


def test_a_function_that_this_pynvml_lacks_is_an_absence_of_its_field(nvml):
    class Lacking(FakeNvml):
        nvmlDeviceGetTotalEnergyConsumption = property()

    sensor = NvmlSensor("aaa", Lacking())
    assert values(sensor)["gpu_energy_j"] is None
    assert "this pynvml cannot give it" in reasons(sensor)["gpu_energy_j"]
    assert values(sensor)["gpu_power_w"] == 350.0


@pytest.mark.parametrize(("listed", "others"), [([7], 0.0), ([7, 8], 0.0), ([7, 9, 10], 2.0)])
def test_processes_on_the_gpu_that_are_not_of_the_family_are_others(nvml, listed, others):
    nvml.pids = listed
    assert values(NvmlSensor("aaa", nvml, family=lambda: {7, 8}))["gpu_other_processes"] == others


@pytest.mark.parametrize("listed", [[], [4711]])
def test_where_nvml_does_not_list_ourselves_nobody_knows_whose_the_others_are(nvml, listed):
    nvml.pids = listed
    sensor = NvmlSensor("aaa", nvml, family=lambda: {7})
    assert values(sensor)["gpu_other_processes"] is None
    assert "NVML lists no process of ours" in reasons(sensor)["gpu_other_processes"]


def test_the_family_is_looked_for_only_when_somebody_new_has_come(nvml):
    looked = []

    def family():
        looked.append(1)
        return {7, 9} if len(looked) > 1 else {7}

    sensor = NvmlSensor("aaa", nvml, family=family)
    for nvml.pids, others in (([7, 8], 1.0), ([7, 8], 1.0), ([7], 0.0), ([7, 9], 0.0), ([7, 9], 0.0)):
        assert values(sensor)["gpu_other_processes"] == others
    assert len(looked) == 2


def test_this_process_and_its_children_are_of_the_family():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert {os.getpid(), os.getppid(), child.pid} <= family_pids()
    finally:
        child.communicate(timeout=30)


def test_energy_counts_from_the_first_reading_that_works(nvml):
    nvml.failing["energy"] = NVMLError("Unknown Error")
    sensor = NvmlSensor("aaa", nvml)
    del nvml.failing["energy"]
    assert values(sensor)["gpu_energy_j"] == 0.0
    nvml.energy_mj += 2_000
    assert values(sensor)["gpu_energy_j"] == 2.0


@pytest.mark.parametrize("words", ["NVML Shared Library Not Found", "Driver Not Loaded", "Unknown Error"])
def test_where_nvml_does_not_start_every_field_is_absent(nvml, words):
    nvml.failing["nvmlInit"] = NVMLError(words)
    sensor = NvmlSensor("aaa", nvml)
    assert set(reasons(sensor).values()) == {f"NVML cannot be used: {words}"}
    sensor.close()


def test_without_the_library_every_field_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    readings = NvmlSensor("aaa").read()
    assert len(readings) == 13
    assert all("nvidia-ml-py) cannot be imported" in reading.reason for reading in readings)


def test_closing_lets_go_of_nvml_once_and_reading_afterwards_is_an_absence(nvml):
    sensor = NvmlSensor("aaa", nvml)
    assert nvml.open == 1
    sensor.close()
    sensor.close()
    assert nvml.open == 0
    assert set(reasons(sensor).values()) == {"the sensor is closed"}


def test_a_cuda_run_is_watched_on_host_and_gpu_and_any_other_on_the_host():
    assert [sensor.name for sensor in open_sensors("cpu")] == ["host", "rapl"]
    assert [sensor.name for sensor in open_sensors("simulated:h200")] == ["host"]
    assert [sensor.name for sensor in open_sensors("cuda:0")] == ["host", "rapl", "gpu"]


def test_a_cuda_index_that_torch_does_not_have_is_an_absence_with_torch_s_words():
    gpu = open_sensors("cuda:97")[2]
    assert all("torch does not tell the UUID of cuda:97" in reading.reason for reading in gpu.read())
