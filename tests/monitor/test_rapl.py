"""The energy counters of the processor: summed over packages, carried over a wrap-around, absent with a reason."""

import errno
from pathlib import Path

import pytest

from labkit.monitor import Sampler, rapl
from labkit.monitor.rapl import NO_RAPL, RaplSensor


@pytest.fixture
def powercap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(rapl, "POWERCAP", tmp_path)
    return tmp_path


def domain(folder: Path, name: str, energy_uj: int, range_uj: int = 1_000_000_000) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder / "energy_uj"


def read(sensor: RaplSensor) -> tuple[float | None, str | None]:
    (reading,) = sensor.read()
    assert (reading.name, reading.unit) == ("cpu_energy_j", "J")
    return reading.value, reading.reason


def test_the_packages_are_summed_from_the_opening_on_and_their_parts_are_not_counted_twice(powercap: Path):
    one, two = domain(powercap / "intel-rapl:0", "package-0", 5_000_000), domain(powercap / "intel-rapl:1", "package-1", 900)
    cores = domain(powercap / "intel-rapl:0:0", "core", 1)
    again = domain(powercap / "intel-rapl-mmio:0", "package-0", 5_000_000)
    platform = domain(powercap / "intel-rapl:2", "psys", 5)
    (powercap / "intel-rapl").mkdir()
    sensor = RaplSensor()
    assert read(sensor) == (0.0, None)
    one.write_text("7500000"), two.write_text("1000900")
    for other in (cores, platform):
        other.write_text("900000000")
    assert read(sensor) == (3.5, None)
    again.write_text("1")
    assert read(sensor) == (3.5, None)


def test_a_counter_that_wraps_around_goes_on(powercap: Path):
    counter = domain(powercap / "intel-rapl:0", "package-0", 262_000_000, range_uj=262_143_000)
    sensor = RaplSensor()
    counter.write_text("1857000")
    assert read(sensor) == (2.0, None)
    counter.write_text("2857000")
    assert read(sensor) == (3.0, None)


def test_where_there_is_no_counter_the_reading_is_absent(powercap: Path, monkeypatch: pytest.MonkeyPatch):
    assert read(RaplSensor()) == (None, NO_RAPL)
    monkeypatch.setattr(rapl, "POWERCAP", powercap / "missing")
    assert read(RaplSensor()) == (None, NO_RAPL)


def test_a_counter_for_root_only_says_so(powercap: Path, monkeypatch: pytest.MonkeyPatch):
    domain(powercap / "intel-rapl:0", "package-0", 1)
    plain = Path.read_text

    def refused(path: Path, *rest: str) -> str:
        if path.name == "energy_uj":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, *rest)

    monkeypatch.setattr(Path, "read_text", refused)
    value, reason = read(RaplSensor())
    assert value is None
    assert reason == f"no sensor: no RAPL counter can be read here, needs root ({powercap}/intel-rapl:0/energy_uj)"


def test_a_counter_that_is_lost_stays_absent(powercap: Path):
    counter = domain(powercap / "intel-rapl:0", "package-0", 1)
    sensor = RaplSensor()
    counter.unlink()
    assert "can no longer be read" in (read(sensor)[1] or "")
    domain(powercap / "intel-rapl:0", "package-0", 9)
    assert read(sensor)[0] is None


def test_the_sampler_keeps_the_samples_of_a_counter_of_joules_and_of_nothing_else(powercap: Path):
    domain(powercap / "intel-rapl:0", "package-0", 1)
    with Sampler([RaplSensor()], period_s=3600) as sampler:
        pass
    summary = sampler.summary()
    ((at_ns, joules),) = summary["cpu_energy_j"]["samples"]
    assert at_ns > 0 and joules == 0.0
    assert "samples" not in summary["monitor_cpu_share"]


def test_the_sampler_keeps_no_samples_of_a_counter_that_never_gave_a_value(powercap: Path):
    with Sampler([RaplSensor()], period_s=3600) as sampler:
        pass
    assert "samples" not in sampler.summary()["cpu_energy_j"]
