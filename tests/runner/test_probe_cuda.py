"""The probes of a GPU, on a stand-in for torch.cuda whose events always say two milliseconds. All else is torch's own."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from labkit.device.machine import FIGURES
from labkit.runner import probe_cuda

CPU = torch.device("cpu")
TWO_MS_S = 0.002


class StandInEvent:
    def __init__(self, enable_timing: bool):
        assert enable_timing
        self.recorded = False

    def record(self) -> None:
        self.recorded = True

    def synchronize(self) -> None:
        assert self.recorded

    def elapsed_time(self, end: "StandInEvent") -> float:
        assert self.recorded and end.recorded
        return 2.0


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SimpleNamespace(replay=lambda: None)
    for name, value in {
        "Event": StandInEvent,
        "Stream": lambda device: None,
        "stream": lambda stream: contextlib.nullcontext(),
        "synchronize": lambda device=None: None,
        "CUDAGraph": lambda: graph,
        "graph": lambda graph, capture_error_mode: contextlib.nullcontext(),
        "is_bf16_supported": lambda including_emulation: False,
        "mem_get_info": lambda device: (8 << 20, 16 << 20),
        "get_device_properties": lambda device: SimpleNamespace(total_memory=16 << 20, uuid="aaa"),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(probe_cuda, "_link_buffers", lambda device: (torch.ones(1000), torch.ones(1000)))
    monkeypatch.setattr(probe_cuda, "GEMM_SIDE", 16)


def test_rates_are_amounts_over_the_time_of_the_events():
    product = pytest.approx(2 * 16**3 / TWO_MS_S)
    assert probe_cuda.gemm(CPU, 0.0) == {"gpu_flop_per_s": product, "gpu_fp32_flop_per_s": product, "gpu_flop_share": 1.0}
    assert probe_cuda.hbm(CPU, 0.0) == {"hbm_bytes_per_s": pytest.approx(2 * (1 << 20) / TWO_MS_S), "hbm_share": 1.0}
    assert probe_cuda.h2d(CPU, 0.0) == {"link_h2d_bytes_per_s": pytest.approx(probe_cuda.LINK_BYTES / TWO_MS_S)}
    assert probe_cuda.d2h(CPU, 0.0) == {"link_d2h_bytes_per_s": pytest.approx(probe_cuda.LINK_BYTES / TWO_MS_S)}


def test_a_burst_is_divided_by_its_length():
    assert probe_cuda.shortest(CPU, 0.0) == {"gpu_min_kernel_ns": 2_000_000 / 100}
    assert probe_cuda.latency(CPU, 0.0) == {"link_latency_ns": 2_000_000 / 100}


def test_the_device_memory_is_the_driver_s():
    assert probe_cuda.size(CPU, 0.0) == {"gpu_memory_bytes": 16 << 20}


def test_what_the_host_s_clock_measures_is_positive_and_a_share_is_between_a_half_and_one():
    assert probe_cuda.launch(CPU, 0.0)["launch_ns"] > 0
    assert probe_cuda.pageable(CPU, 0.0)["link_pageable_bytes_per_s"] > 0
    assert 0.5 <= probe_cuda.duplex(CPU, 0.0)["link_duplex_share"] <= 1.0


@pytest.mark.parametrize(("alone_ns", "both_ns", "share"), [(200, 100, 1.0), (142, 100, 0.71), (100, 100, 0.5)])
def test_the_duplex_share_is_the_rate_that_a_direction_keeps(monkeypatch, alone_ns, both_ns, share):
    """Two copies one after the other against both at once: half the time is full duplex, as long is none."""
    times = iter([alone_ns, both_ns])
    monkeypatch.setattr(probe_cuda, "median_ns", lambda work, seconds: (work(), next(times))[1])
    assert probe_cuda.duplex(CPU, 0.0) == {"link_duplex_share": pytest.approx(share)}


def test_there_is_a_probe_for_every_figure_of_a_gpu():
    """All but the wake-up, which needs the cuda device, and the power limit, which needs NVML."""
    measures = (
        probe_cuda.size, probe_cuda.gemm, probe_cuda.hbm, probe_cuda.launch, probe_cuda.shortest, probe_cuda.h2d,
        probe_cuda.d2h, probe_cuda.duplex, probe_cuda.pageable, probe_cuda.latency,
    )  # fmt: skip
    measured = {name for measure in measures for name in measure(CPU, 0.0)}
    assert measured == {name for name in FIGURES if name.startswith(("gpu_", "hbm_", "link_"))} | {"launch_ns"}


def test_every_probe_says_what_it_measures_and_how():
    probes = probe_cuda.cuda_probes()
    assert len(probes) == 12
    assert all(probe.words and len(probe.how.split()) >= 3 for probe in probes)
