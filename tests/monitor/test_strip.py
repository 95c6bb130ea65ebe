"""The strip is the same row on every device; what is absent has a dash and the reason."""

import pytest

from labkit.monitor import Reading
from labkit.monitor import strip as strip_module
from labkit.monitor.sensors import sensor_units
from labkit.monitor.strip import Dial, strip

NAMES = [
    "process_cpu_share", "machine_cpu_share", "process_rss_bytes", "memory_available_bytes", "gpu_utilization",
    "gpu_memory_used_bytes", "gpu_power_w", "gpu_pcie_rx_bytes_per_s", "gpu_pcie_tx_bytes_per_s",
]  # fmt: skip
HOST = {
    "process_cpu_share": Reading("process_cpu_share", 0.73, "share of the cores that it may use"),
    "machine_cpu_share": Reading("machine_cpu_share", 0.081, "share of all cores"),
    "process_rss_bytes": Reading("process_rss_bytes", 1.2 * 2**30, "bytes"),
    "memory_available_bytes": Reading("memory_available_bytes", 5 * 2**30, "bytes"),
}
GPU = {
    "gpu_utilization": Reading("gpu_utilization", 0.0, "share of time with a kernel running"),
    "gpu_memory_used_bytes": Reading("gpu_memory_used_bytes", 2000 * 2**20, "bytes"),
    "gpu_power_w": Reading("gpu_power_w", 351.7, "W"),
    "gpu_pcie_rx_bytes_per_s": Reading("gpu_pcie_rx_bytes_per_s", 1.25e9, "bytes/s"),
    "gpu_pcie_tx_bytes_per_s": Reading("gpu_pcie_tx_bytes_per_s", None, "bytes/s", "Not Supported"),
    "gpu_temperature_c": Reading("gpu_temperature_c", 60.0, "°C"),
}


def texts(dials: tuple[Dial, ...]) -> list[str]:
    return [dial.text for dial in dials]


def reasons(dials: tuple[Dial, ...]) -> list[str | None]:
    return [dial.reason for dial in dials]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_module, "cuda_count", lambda: (0, "this machine has no GPU driver"))


def test_every_dial_of_a_cuda_run_in_numbers():
    dials = strip(HOST | GPU, "cuda:0")
    assert [dial.name for dial in dials] == NAMES
    assert [dial.label for dial in dials] == [
        "CPU (process)", "CPU (machine)", "memory (process)", "memory free", "GPU utilization", "GPU memory", "power",
        "PCIe in", "PCIe out",
    ]  # fmt: skip
    assert texts(dials) == ["73 %", "8.1 %", "1.2 GiB", "5 GiB", "0.0 %", "1.95 GiB", "352 W", "1.25 GB/s", "–"]
    assert dials[0] == Dial("process_cpu_share", "CPU (process)", "73 %", 0.73, "share", None)
    assert dials[8] == Dial("gpu_pcie_tx_bytes_per_s", "PCIe out", "–", None, "bytes/s", "Not Supported")


@pytest.mark.usefixtures("no_gpu")
def test_on_the_cpu_the_gpu_s_dials_are_absent_because_the_machine_has_none():
    dials = strip(HOST, "cpu")
    assert texts(dials)[:4] == ["73 %", "8.1 %", "1.2 GiB", "5 GiB"]
    assert set(texts(dials)[4:]) == {"–"}
    assert reasons(dials) == [None] * 4 + ["this machine has no GPU driver"] * 5


def test_on_the_cpu_of_a_machine_with_a_gpu_the_reason_is_that_the_run_is_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strip_module, "cuda_count", lambda: (1, ""))
    dials = strip(HOST | GPU, "cpu")
    assert reasons(dials)[4:] == ["the run is on the cpu"] * 5
    assert {dial.value for dial in dials[4:]} == {None}


def test_a_simulated_device_has_nothing_to_sense():
    dials = strip({}, "simulated:h200")
    assert [dial.name for dial in dials] == NAMES
    assert {dial.text for dial in dials} == {"–"}
    assert {dial.reason for dial in dials} == {"simulated: there is nothing to sense"}


def test_host_values_beside_a_simulation_say_that_they_are_this_host_s():
    dials = strip(HOST | GPU, "simulated:h200")
    assert [dial.label for dial in dials[:4]] == [
        "CPU (process), this host", "CPU (machine), this host", "memory (process), this host", "memory free, this host",
    ]  # fmt: skip
    assert texts(dials)[:4] == ["73 %", "8.1 %", "1.2 GiB", "5 GiB"]
    assert reasons(dials)[4:] == ["simulated: there is nothing to sense"] * 5


@pytest.mark.usefixtures("no_gpu")
def test_before_the_first_reading_the_row_is_whole_and_says_so():
    for device in ("cpu", "cuda:1"):
        dials = strip({}, device)
        assert [dial.name for dial in dials] == NAMES
        assert set(reasons(dials)[:4]) == {"no reading yet"}
    assert set(reasons(strip({}, "cuda:1"))) == {"no reading yet"}


def test_a_reading_that_is_absent_keeps_its_reason():
    gone = {"process_cpu_share": Reading("process_cpu_share", None, "share of all cores", "NoSuchProcess: it has ended")}
    dial = strip(HOST | gone, "cuda:0")[0]
    assert (dial.text, dial.value, dial.reason) == ("–", None, "NoSuchProcess: it has ended")


def test_every_dial_is_of_a_sensor_that_there_is():
    assert set(strip_module.LABELS) <= set(sensor_units())
