"""Counters of a CPU quota, version 1 and 2, at the own group and above it."""

from pathlib import Path

import pytest

from labkit.monitor import quota
from labkit.monitor.quota import QuotaCounts, held_back_share, quota_files, read_quota


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(quota, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(quota, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("")
    return tmp_path


def stat(folder: Path, periods: int, throttled: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(f"nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time 5\n")
    return folder / "cpu.stat"


def test_in_version_2_the_own_group_and_those_above_it_are_read(groups: Path):
    (groups / "own").write_text("0::/user/lab\n")
    mine, above = stat(groups / "cgroup/user/lab", 10, 2), stat(groups / "cgroup/user", 50, 0)
    stat(groups / "cgroup/other", 50, 50)
    assert quota_files() == [mine, above]
    assert read_quota(quota_files()) == [QuotaCounts(10, 2), QuotaCounts(50, 0)]


def test_in_version_1_it_is_the_hierarchy_of_the_cpu(groups: Path):
    (groups / "own").write_text("4:memory:/elsewhere\n2:cpu,cpuacct:/docker/3f\n")
    top = stat(groups / "cgroup/cpu,cpuacct", 7, 3)  # a container sees its own group as the top
    assert quota_files() == [top]


def test_a_group_that_counts_no_periods_has_none(groups: Path):
    (groups / "own").write_text("0::/\n")
    (groups / "cgroup").mkdir()
    (groups / "cgroup/cpu.stat").write_text("usage_usec 123\nuser_usec 100\n")
    assert read_quota(quota_files()) == [QuotaCounts(0, 0)]


def test_where_there_are_no_cgroups_nothing_is_found(groups: Path):
    assert quota_files() == []
    (groups / "own").unlink()
    assert quota_files() == []


def test_the_group_that_was_held_back_most_counts_and_only_where_time_passed():
    before = [QuotaCounts(100, 50), QuotaCounts(10, 10), QuotaCounts(0, 0)]
    assert held_back_share(before, before) is None
    after = [QuotaCounts(110, 51), QuotaCounts(20, 14), QuotaCounts(0, 0)]
    assert held_back_share(before, after) == 0.4
