"""What goes on around a run: a fake psutil with exact numbers, counters of a quota, clocks, and the real machine."""

import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from time import monotonic

import pytest

from labkit.monitor import Surroundings, clocks, quota, surroundings
from tests.monitor.test_host_sensor import FakeProcess, FakePsutil

Core = namedtuple("Core", "user system idle iowait steal guest")


class Machine(FakePsutil):
    """Four cores, of which this process may use the first two. The test adds seconds to them."""

    def __init__(self):
        super().__init__()
        self.cores = [dict.fromkeys(Core._fields, 0.0) for _ in range(4)]

    def cpu_times(self, percpu=False):
        assert percpu
        return [Core(**core) for core in self.cores]

    def passes(self, seconds, **busy):
        """Time goes by; the first two cores are busy for so long each."""
        self.now_s += seconds
        for core in self.cores[:2]:
            for name, each in busy.items():
                core[name] += each
            core["idle"] += seconds - sum(each for name, each in busy.items() if name != "guest")


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Machine:
    monkeypatch.setattr(surroundings, "usable_cpus", lambda: [0, 1])
    monkeypatch.setattr(surroundings, "quota_files", list)
    monkeypatch.setattr(clocks, "CPUS", tmp_path)
    return Machine()


def opened(machine: Machine) -> Surroundings:
    return Surroundings(pid=7, psutil=machine, clock=lambda: machine.now_s)


def values(watch: Surroundings) -> dict[str, float | None]:
    return {name: seen["mean"] for name, seen in watch.summary().items()}


def reasons(watch: Surroundings) -> dict[str, str | None]:
    return {name: seen["reason"] for name, seen in watch.summary().items()}


def test_others_are_all_that_was_busy_less_the_own_tree(machine):
    machine.tree = [FakeProcess(machine, own_s=3.0)]
    watch = opened(machine)
    machine.passes(10.0, user=6.0, system=1.0)
    machine.root.own_s += 2.0
    machine.tree[0].own_s += 8.0
    assert values(watch)["others_cpu_share"] == pytest.approx((14 - 10) / 20)


def test_other_cores_than_those_that_it_may_use_do_not_count(machine):
    watch = opened(machine)
    machine.passes(10.0)
    machine.cores[3]["user"] += 10.0
    assert values(watch)["others_cpu_share"] == 0.0


def test_time_that_other_guests_took_is_stolen_and_not_others_on_this_machine(machine):
    watch = opened(machine)
    machine.passes(10.0, steal=3.0)
    read = values(watch)
    assert (read["others_cpu_share"], read["stolen_cpu_share"]) == (0.0, pytest.approx(0.3))


def test_waiting_for_the_disk_is_idle_and_a_guest_is_not_counted_twice(machine):
    watch = opened(machine)
    machine.passes(10.0, iowait=4.0, user=2.0, guest=2.0)
    assert values(watch)["others_cpu_share"] == pytest.approx(0.2)


def test_a_new_beginning_forgets_what_was_before(machine):
    watch = opened(machine)
    machine.passes(10.0, user=10.0)
    watch.begin()
    machine.passes(10.0, user=1.0)
    assert values(watch)["others_cpu_share"] == pytest.approx(0.1)


def test_a_child_that_came_meanwhile_is_one_s_own_at_the_end(machine):
    watch = opened(machine)
    machine.passes(0.9, user=0.5)
    machine.tree = [FakeProcess(machine, own_s=1.0)]
    assert values(watch)["others_cpu_share"] == 0.0


def test_a_child_that_nobody_waited_for_makes_others_absent(machine):
    machine.tree = [FakeProcess(machine, own_s=4.0)]
    watch = opened(machine)
    machine.passes(2.0, user=1.0)
    machine.tree = []
    assert values(watch)["others_cpu_share"] is None
    assert "nobody waited for" in reasons(watch)["others_cpu_share"]


def test_less_than_half_a_second_is_too_short_to_tell(machine):
    watch = opened(machine)
    machine.passes(0.4, user=0.4)
    assert values(watch)["others_cpu_share"] is None
    assert reasons(watch)["others_cpu_share"] == "the run was watched for 0.4 s; 0.5 s are needed to tell"
    machine.passes(0.1, user=0.1)
    assert values(watch)["others_cpu_share"] == pytest.approx(1.0)


def test_what_psutil_cannot_tell_is_absent_with_its_words(machine, monkeypatch):
    watch = opened(machine)
    machine.passes(2.0)
    machine.root.gone = True
    assert "NoSuchProcess: it has ended" in reasons(watch)["others_cpu_share"]
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert "psutil cannot be imported" in reasons(Surroundings())["others_cpu_share"]


def test_every_summary_has_the_form_of_the_sampler_s(machine):
    watch = opened(machine)
    machine.passes(2.0)
    summary = watch.summary()
    assert set(summary) == set(surroundings.UNITS)
    for seen in summary.values():
        assert set(seen) == {"unit", "n", "min", "mean", "max", "last", "reason"}
        assert (seen["mean"] is None) == bool(seen["reason"]) == (seen["n"] == 0)


def clocked(folder: Path, cpu: int, now: int, highest: int = 4_000_000) -> None:
    (folder / f"cpu{cpu}/cpufreq").mkdir(parents=True, exist_ok=True)
    (folder / f"cpu{cpu}/cpufreq/scaling_cur_freq").write_text(f"{now}\n")
    (folder / f"cpu{cpu}/cpufreq/cpuinfo_max_freq").write_text(f"{highest}\n")


def test_the_clock_is_that_of_the_fastest_usable_core_on_average(machine, tmp_path):
    watch = opened(machine)
    for now in (2_000_000, 3_000_000):
        clocked(tmp_path, 0, now)
        clocked(tmp_path, 1, 800_000)
        clocked(tmp_path, 2, 4_000_000)  # not one that it may use
        machine.passes(0.5)
        watch.look()
    assert watch.summary()["cpu_clock_share"] | {"reason": None} == {
        "unit": "share of the highest clock", "n": 2, "min": 0.625, "mean": 0.625, "max": 0.625, "last": 0.625, "reason": None,
    }  # fmt: skip


def test_the_clocks_are_read_twice_a_second_however_often_one_looks(machine, tmp_path):
    watch = opened(machine)
    clocked(tmp_path, 0, 2_000_000)
    for _ in range(100):
        machine.passes(0.1)
        watch.look()
    assert watch.summary()["cpu_clock_share"]["n"] == pytest.approx(20, abs=4)


def test_clocks_that_cannot_be_read_are_absent_with_a_reason(machine, tmp_path):
    assert "cpufreq" in reasons(opened(machine))["cpu_clock_share"]
    clocked(tmp_path, 0, 2_000_000)
    assert reasons(opened(machine))["cpu_clock_share"] == "the run was too short to read the clocks"


def test_a_quota_is_told_by_the_periods_in_which_it_did_not_last(machine, monkeypatch, tmp_path):
    stat = tmp_path / "cpu.stat"
    stat.write_text("usage_usec 5\nnr_periods 100\nnr_throttled 90\nthrottled_usec 1\n")
    monkeypatch.setattr(surroundings, "quota_files", lambda: [stat])
    watch = opened(machine)
    machine.passes(2.0)
    assert reasons(watch)["quota_held_share"] == "no CPU quota was in force"
    stat.write_text("usage_usec 5\nnr_periods 120\nnr_throttled 95\nthrottled_usec 1\n")
    assert values(watch)["quota_held_share"] == 0.25


def test_without_any_cgroup_the_quota_is_absent_with_a_reason(machine):
    watch = opened(machine)
    machine.passes(2.0)
    assert reasons(watch)["quota_held_share"] == quota.NO_COUNTERS


def test_the_real_machine_sees_a_process_that_is_nobody_s_child_and_not_one_s_own():
    """A busy loop started by a process that has ended belongs to nobody here; one of ours does."""
    loop = "import time; end = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    starter = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {loop!r}], {quiet}).pid)"
    import psutil

    stranger = psutil.Process(int(subprocess.run([sys.executable, "-c", starter], capture_output=True, text=True, timeout=60, check=True).stdout))
    try:
        watch = Surroundings()
        busy_s, until = 0.0, monotonic() + 30
        while busy_s < 1.0 and monotonic() < until:
            times = stranger.cpu_times()
            busy_s = times.user + times.system
        assert watch.summary()["others_cpu_share"]["mean"] > 0.0
    finally:
        stranger.kill()
