"""Compute has cores of its own, the other lane threads share the rest; seen from the system's own answer."""

import os

import pytest

from labkit.device import affinity
from labkit.device.affinity import Affinity
from labkit.device.cpu import CpuDevice
from labkit.schedule import Lane, Op

CAN_PIN = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


def cores_of(device: CpuDevice, role: str) -> set[int]:
    handle = device.submit(Op("look", Lane(role), lambda: os.sched_getaffinity(0)))
    device.wait([handle])
    return handle.value


@pytest.mark.skipif(not CAN_PIN, reason="one core, or no call to place threads")
def test_compute_and_workers_share_no_core() -> None:
    device = CpuDevice(widths={"workers": 2})
    workers_alone = cores_of(device, "workers")
    compute, workers = cores_of(device, "compute"), cores_of(device, "workers")
    device.close()
    everywhere = os.sched_getaffinity(0)
    assert workers_alone == everywhere, "without a compute lane the workers have every core"
    assert len(compute) == 1
    assert workers == everywhere - compute


def test_the_host_thread_stays_where_it_may_run() -> None:
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    device = CpuDevice()
    device.wait([device.submit(Op("work", Lane("compute"), lambda: None))])
    device.close()
    assert before == (os.sched_getaffinity(0) if before is not None else None)


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """Four pretended cores, and what was asked of the system."""
    asked: dict[int, list[int]] = {}
    monkeypatch.setattr(affinity, "_CAN_PIN", True)
    monkeypatch.setattr(affinity.os, "sched_getaffinity", lambda thread: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(affinity, "_pin", lambda thread, cores: asked.__setitem__(thread, list(cores)))
    return asked


def serve(placing: Affinity, thread: int, lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity.threading, "get_native_id", lambda: thread)
    placing.join(lane)


def test_a_share_of_two_takes_two_cores(pinned: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    placing = Affinity({"compute": 2})
    serve(placing, 11, Lane("compute"), monkeypatch)
    serve(placing, 12, Lane("workers"), monkeypatch)
    assert pinned == {11: [0, 1], 12: [2, 3]}


def test_the_last_core_is_never_taken_from_the_others(pinned: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    placing = Affinity({"compute": 2})
    serve(placing, 11, Lane("compute", 0), monkeypatch)
    serve(placing, 12, Lane("compute", 1), monkeypatch)
    serve(placing, 13, Lane("workers"), monkeypatch)
    assert pinned == {11: [0, 1], 12: [2, 3], 13: [2, 3]}


def test_a_lane_that_leaves_gives_its_cores_back(pinned: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    placing = Affinity({})
    serve(placing, 11, Lane("compute"), monkeypatch)
    serve(placing, 12, Lane("workers"), monkeypatch)
    assert pinned[12] == [1, 2, 3]
    monkeypatch.setattr(affinity.threading, "get_native_id", lambda: 11)
    placing.leave()
    assert pinned[12] == [0, 1, 2, 3]
