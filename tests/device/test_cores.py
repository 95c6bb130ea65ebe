"""Cores are those that this process may use: its affinity, cut by the container's quota."""

import os
from pathlib import Path

import pytest

from labkit.device import cores


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of /sys/fs/cgroup, and a scheduler that allows 8 cores."""
    monkeypatch.setattr(cores, "CGROUP_V2", tmp_path / "cpu.max")
    monkeypatch.setattr(cores, "CGROUP_V1", tmp_path / "cpu")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    (tmp_path / "cpu").mkdir()
    return tmp_path


def write_v1(cgroup: Path, quota: str, period: str) -> None:
    (cgroup / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (cgroup / "cpu" / "cpu.cfs_period_us").write_text(period)


def test_without_a_quota_it_is_the_affinity(cgroup: Path):
    assert (cores.quota_cores(), cores.available_cores()) == (None, 8)


@pytest.mark.parametrize(
    ("text", "quota", "available"),
    [
        ("max 100000\n", None, 8),
        ("200000 100000\n", 2.0, 2),
        ("350000 100000\n", 3.5, 3),
        ("50000 100000\n", 0.5, 1),
        ("1600000 100000\n", 16.0, 8),
        ("25000 10000", 2.5, 2),
        ("", None, 8),
        ("100000", None, 8),
        ("many 100000", None, 8),
        ("100000 0", None, 8),
    ],
)
def test_a_version_2_quota_is_cut_to_whole_cores_but_never_below_one(cgroup: Path, text, quota, available):
    (cgroup / "cpu.max").write_text(text)
    assert (cores.quota_cores(), cores.available_cores()) == (quota, available)


@pytest.mark.parametrize(
    ("quota_us", "period_us", "quota", "available"),
    [
        ("-1", "100000", None, 8),
        ("300000", "100000", 3.0, 3),
        ("20000", "100000", 0.2, 1),
        ("100000", "0", None, 8),
        ("x", "100000", None, 8),
    ],
)
def test_a_version_1_quota_counts_where_there_is_no_version_2(
    cgroup: Path, quota_us, period_us, quota, available
):
    write_v1(cgroup, quota_us, period_us)
    assert (cores.quota_cores(), cores.available_cores()) == (quota, available)


def test_version_2_goes_before_version_1(cgroup: Path):
    (cgroup / "cpu.max").write_text("max 100000")
    write_v1(cgroup, "100000", "100000")
    assert cores.quota_cores() is None


def test_where_there_is_no_affinity_it_is_the_count_of_cores(cgroup: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.affinity_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores.available_cores() == 1
