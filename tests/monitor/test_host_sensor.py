"""The host sensor, on a fake psutil with exact numbers, and on the real one."""

import subprocess
import sys
from collections import namedtuple
from types import SimpleNamespace

import pytest

from labkit.device.cores import available_cores
from labkit.monitor import HostSensor, Reading, host
from labkit.monitor.sensors import sensor_units

Times = namedtuple("Times", "user system children_user children_system")
Machine = namedtuple("Machine", "user system idle iowait guest")
CORES = available_cores()


class NoSuchProcess(Exception):
    pass


class FakeProcess:
    def __init__(self, psutil, own_s=0.0, waited_s=0.0, rss=0):
        self.psutil, self.own_s, self.waited_s, self.rss, self.gone = psutil, own_s, waited_s, rss, False

    def cpu_times(self):
        if self.gone:
            raise NoSuchProcess("it has ended")
        return Times(self.own_s, 0.0, self.waited_s, 0.0)

    def memory_info(self):
        if self.gone:
            raise NoSuchProcess("it has ended")
        return SimpleNamespace(rss=self.rss)

    def children(self, recursive):
        assert recursive
        self.psutil.scans += 1
        return list(self.psutil.tree)


class FakePsutil:
    """A machine of two cores whose times the test sets."""

    NoSuchProcess = NoSuchProcess
    Error = NoSuchProcess

    class AccessDenied(Exception):
        pass

    def __init__(self):
        self.now_s = 100.0
        self.scans = 0
        self.root = FakeProcess(self, rss=1000)
        self.tree = []
        self.machine = Machine(0.0, 0.0, 0.0, 0.0, 0.0)

    def Process(self, pid):
        return self.root

    def cpu_times(self):
        return self.machine

    def virtual_memory(self):
        return SimpleNamespace(available=5000)


@pytest.fixture
def psutil(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    return FakePsutil()


def opened(psutil) -> HostSensor:
    return HostSensor(pid=7, psutil=psutil, clock=lambda: psutil.now_s)


def values(sensor) -> dict[str, float | None]:
    return {reading.name: reading.value for reading in sensor.read()}


def reasons(sensor) -> dict[str, str | None]:
    return {reading.name: reading.reason for reading in sensor.read()}


def test_the_first_reading_has_a_value_because_the_clock_starts_when_the_sensor_is_opened(psutil):
    sensor = opened(psutil)
    psutil.now_s += 2.0
    psutil.root.own_s = 1.0 * CORES
    assert values(sensor)["process_cpu_share"] == 0.5


def test_the_children_of_the_tree_are_counted(psutil):
    psutil.tree = [FakeProcess(psutil, own_s=3.0, rss=200), FakeProcess(psutil, own_s=1.0, rss=30)]
    sensor = opened(psutil)
    psutil.now_s += 1.0
    psutil.tree[0].own_s += 0.25 * CORES
    psutil.tree[1].own_s += 0.5 * CORES
    read = values(sensor)
    assert read["process_cpu_share"] == pytest.approx(0.75)
    assert read["process_rss_bytes"] == 1230.0


def test_a_child_that_was_waited_for_is_counted_once(psutil):
    child = FakeProcess(psutil, own_s=4.0)
    psutil.tree = [child]
    sensor = opened(psutil)
    psutil.now_s += 1.0
    child.gone = True
    psutil.root.waited_s = 4.0 + 0.5 * CORES
    assert values(sensor)["process_cpu_share"] == pytest.approx(0.5)


def test_a_child_that_nobody_waited_for_makes_the_share_absent_not_negative(psutil):
    child = FakeProcess(psutil, own_s=4.0)
    psutil.tree = [child]
    sensor = opened(psutil)
    psutil.now_s += 1.0
    child.gone = True
    assert values(sensor)["process_cpu_share"] is None
    assert "nobody waited for" in reasons(sensor)["process_cpu_share"]


def test_waiting_for_the_disk_is_idle_and_a_guest_is_not_counted_twice(psutil):
    sensor = opened(psutil)
    psutil.now_s += 1.0
    psutil.machine = Machine(user=0.4, system=0.1, idle=1.0, iowait=0.5, guest=0.4)
    assert values(sensor)["machine_cpu_share"] == pytest.approx(0.25)


def test_within_fifty_milliseconds_the_last_share_is_repeated(psutil):
    sensor = opened(psutil)
    assert "less than 50 ms" in reasons(sensor)["process_cpu_share"]
    psutil.now_s += 1.0
    psutil.root.own_s = 0.5 * CORES
    assert values(sensor)["process_cpu_share"] == 0.5
    psutil.now_s += 0.01
    psutil.root.own_s += 5.0
    assert values(sensor)["process_cpu_share"] == 0.5


def test_the_children_are_looked_for_once_a_second_not_at_every_reading(psutil):
    sensor = opened(psutil)
    for _ in range(18):
        psutil.now_s += 0.1
        sensor.read()
    assert psutil.scans == 2


def test_when_the_watched_process_is_gone_its_fields_are_absent_and_the_machine_s_memory_is_not(psutil):
    sensor = opened(psutil)
    psutil.now_s += 1.0
    psutil.root.gone = True
    read = values(sensor)
    assert read["process_cpu_share"] is None
    assert read["process_rss_bytes"] is None
    assert read["memory_available_bytes"] == 5000.0
    assert "NoSuchProcess: it has ended" in reasons(sensor)["process_rss_bytes"]


def test_a_container_s_limit_lowers_what_is_available(psutil, tmp_path):
    sensor = opened(psutil)
    (tmp_path / "memory.max").write_text("4000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 2500\ninactive_file 400\n")
    assert values(sensor)["memory_available_bytes"] == 1400.0
    (tmp_path / "memory.max").write_text("max\n")
    assert values(sensor)["memory_available_bytes"] == 5000.0


def test_without_psutil_every_reading_is_absent_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    readings = HostSensor().read()
    assert len(readings) == 4
    assert all(reading.value is None and "psutil cannot be imported" in reading.reason for reading in readings)


def test_the_real_psutil_sees_the_memory_of_this_process_and_of_its_child():
    alone = values(HostSensor())["process_rss_bytes"]
    child = subprocess.Popen([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        child.stdout.readline()
        with_child = values(HostSensor())["process_rss_bytes"]
    finally:
        child.communicate(timeout=30)
    assert alone > 1_000_000
    assert with_child > alone + 1_000_000


def test_a_pid_that_is_no_process_is_an_absence_with_a_reason():
    assert all("NoSuchProcess" in reading.reason for reading in HostSensor(pid=2**22 + 12345).read())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_not_finite_is_absent(value):
    reading = Reading("power", value, "W")
    assert reading.value is None
    assert "not a finite number" in reading.reason


def test_importing_the_monitor_loads_neither_torch_nor_pynvml_nor_psutil():
    script = "import sys, labkit.monitor; print(sorted({'torch', 'pynvml', 'psutil'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_units_of_every_reading_are_known_before_a_sensor_is_opened(psutil):
    assert {reading.name: reading.unit for reading in opened(psutil).read()}.items() <= sensor_units().items()
    assert list(sensor_units())[4] == "gpu_utilization"
    assert len(sensor_units()) == 4 + 13 + 1 + 5
