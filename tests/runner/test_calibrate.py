"""Calibration: a real short one, and everything that may go wrong with stand-ins for the probes."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit.data.locate import datasets_root
from labkit.data.photos import Photos
from labkit.device.cost_model import CostModel
from labkit.device.machine import FIGURES, Figure, Machine, read_machine, write_machine
from labkit.device.open import cuda_count
from labkit.device.simulated import SimulatedDevice
from labkit.runner import calibrate as calibrating
from labkit.runner import probe_device, probe_host
from labkit.runner.calibrate import Calibration, calibrate, run_probes
from labkit.runner.probe import LEAST, Probe, durations_ns, one_torch_thread
from labkit.schedule import Cost, Lane, Op

OF_A_CPU = {
    "cores", "clock_ns", "decode_pixels_per_s", "host_flop_per_s", "host_bytes_per_s", "dram_bytes_per_s", "submit_ns",
    "wake_ns", "dispatch_ns", "link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_pageable_bytes_per_s",
    "link_latency_ns", "noise_share", "clock_resolution_ns", "host_bf16_flop_per_s", "host_fp16_flop_per_s", "round_noise_share",
}  # fmt: skip
OF_A_GPU = {
    "gpu_flop_per_s", "gpu_fp32_flop_per_s", "gpu_flop_share", "hbm_bytes_per_s", "hbm_share", "gpu_min_kernel_ns", "gpu_memory_bytes", "launch_ns",
    "link_duplex_share",
}  # fmt: skip


def probe(measured: dict[str, float] | Exception, words: str = "something") -> Probe:
    def measure(_: float) -> dict[str, float]:
        if isinstance(measured, Exception):
            raise measured
        return measured

    return Probe(words, "as the test says", measure)


def run(*probes: Probe, progress: Callable[[str], None] = lambda words: None) -> Calibration:
    return run_probes(list(probes), "Test", "cpu", 0.0, progress)


@pytest.fixture(scope="module")
def real() -> Calibration:
    """This machine, in two or three seconds."""
    return calibrate(seconds_per_probe=0.02)


def test_a_real_calibration_gives_every_figure_and_every_figure_is_positive(real: Calibration):
    machine = real.machine
    assert machine.name == "this"
    assert machine.kind == ("cuda" if cuda_count()[0] else "cpu")
    assert OF_A_CPU - set(machine.figures) == set(), real.notes
    assert set(machine.figures) <= set(FIGURES)
    assert all(math.isfinite(figure.value) and figure.value > 0 for figure in machine.figures.values())


def test_every_figure_says_when_and_how_it_was_measured(real: Calibration):
    for name, figure in real.machine.figures.items():
        when, _, how = figure.source.partition(": ")
        assert when.startswith("measured by labkit calibrate on 20"), name
        assert len(how.split()) >= 3, name


def test_measured_rates_are_of_an_order_that_a_computer_can_have(real: Calibration):
    machine = real.machine
    assert 1e6 < machine["decode_pixels_per_s"] < 1e11
    assert 1e8 < machine["host_flop_per_s"] < 1e13
    assert 1e8 < machine["host_bytes_per_s"] < 1e13
    assert 1 < machine["clock_ns"] < machine["submit_ns"] < 1e9
    assert machine.get("corun_share") is None or 0 < machine["corun_share"] <= 1


def test_what_was_measured_can_be_written_read_and_predicted_with(real: Calibration, tmp_path: Path):
    write_machine(real.machine, tmp_path / "this.yaml")
    machine = read_machine(tmp_path / "this.yaml")
    assert machine == real.machine
    model = CostModel(machine)
    assert model.duration_ns("decode", "workers", Cost(jpeg_pixels=10**6, bytes=10**6)) > 1000
    assert model.duration_ns("copy", "h2d", Cost(bytes=10**8)) > 1000
    assert model.duration_ns("forward", "compute", Cost(flop=10**9, bytes=10**6)) > 1000


def test_calibrating_leaves_torch_with_as_many_threads_as_before(real: Calibration):
    before = torch.get_num_threads()
    with one_torch_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


@pytest.mark.cuda
def test_a_calibration_with_a_gpu_measures_the_gpu():
    if not cuda_count()[0]:
        pytest.skip(cuda_count()[1])
    machine = calibrate(seconds_per_probe=0.1).machine
    assert (OF_A_CPU | OF_A_GPU) - set(machine.figures) == set()
    assert machine["link_pageable_bytes_per_s"] <= machine["link_h2d_bytes_per_s"] * 1.2


def test_a_probe_that_fails_leaves_its_figures_absent_and_a_note_that_says_why():
    found = run(probe(RuntimeError("no data"), "decoding"), probe({"cores": 3}))
    assert found.machine.get("cores") == 3.0
    assert found.machine.get("decode_pixels_per_s") is None
    assert found.notes[0] == "decoding could not be measured: RuntimeError: no data"


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_figure_that_cannot_be_right_is_left_out_and_noted(value: float):
    found = run(probe({"submit_ns": value, "wake_ns": 7.0}))
    assert found.machine.get("submit_ns") is None
    assert found.machine["wake_ns"] == 7.0
    assert found.notes[0].startswith(f"submit_ns was measured as {value}, which cannot be")


def test_people_are_told_what_is_being_measured_before_it_is():
    told: list[str] = []
    run(probe({}, "first"), probe(ValueError(), "second"), probe({}, "third"), progress=told.append)
    assert told == ["first", "second", "third"]


def test_steady_work_is_quiet_and_unsteady_work_is_noted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calibrating, "_fixed_work_ns", lambda seconds: [100, 100, 100, 100])
    assert run(probe({})).machine["noise_share"] == 0.0
    assert run(probe({})).notes == ()
    monkeypatch.setattr(calibrating, "_fixed_work_ns", lambda seconds: [100, 100, 200, 200, 300, 300])
    noisy = run(probe({}))
    assert noisy.machine["noise_share"] == pytest.approx((300 - 100) / 200)
    assert "differ by 100 %: something else uses this machine" in noisy.notes[0]


def test_one_core_alone_has_no_share_beside_another_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe_host, "available_cores", lambda: 1)
    found = run(Probe("one core beside another", "how", probe_host.corun))
    assert found.machine.get("corun_share") is None
    assert "there is one core only" in found.notes[0]


def test_at_least_five_durations_are_taken_and_the_first_call_is_not_among_them():
    calls: list[int] = []
    assert len(durations_ns(lambda: calls.append(1), 0.0)) == LEAST
    assert len(calls) == LEAST + 1


def test_decoding_is_counted_in_pixels_of_the_photos_as_stored(monkeypatch: pytest.MonkeyPatch):
    """On a clock that only decoding moves, 1 ms a photo: the rate is the median of the five rounds' pixels per ms."""
    now_ns, sides = [0], set()

    def decode(path: Path, side: int, out: np.ndarray) -> None:
        sides.add(side)
        now_ns[0] += 1_000_000

    monkeypatch.setattr(probe_host, "decode_square", decode)
    monkeypatch.setattr(probe_host, "perf_counter_ns", lambda: now_ns[0])
    photos = Photos.open(datasets_root() / "photos")
    pixels = photos.sizes_wh.astype(np.int64).prod(axis=1)
    rates = [pixels[first::5].sum() / len(pixels[first::5]) * 1000 for first in range(5)]
    assert probe_host.decode(0.0)["decode_pixels_per_s"] == pytest.approx(np.median(rates))
    assert sides == {160}


def test_the_overheads_are_what_the_device_says():
    figures = {"submit_ns": 1000, "wake_ns": 2000, "dispatch_ns": 3000, "cores": 4}
    machine = Machine("test", "Test", "cpu", {name: Figure(value, "the test") for name, value in figures.items()})
    nap = Op("nap", Lane("workers"), lambda: None, Cost(fixed_ns=200_000))
    measured = probe_device.overheads_on(SimulatedDevice(machine, widths={"workers": 1}), nap, 0.01)
    assert measured == {"submit_ns": 1000, "wake_ns": 2000, "dispatch_ns": 3000}


def test_a_copy_lane_of_the_cpu_device_has_one_rate_whichever_way_and_whatever_memory():
    rates = probe_device.copies(0.0)
    assert set(rates) == {"link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_pageable_bytes_per_s"}
    assert len(set(rates.values())) == 1


def test_threads_on_cores_are_kept_to_cores_of_their_own():
    os = pytest.importorskip("os")
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("fewer than two cores, or a system without affinity")
    before = os.sched_getaffinity(0)
    with probe_host.threads_on_cores(2) as pair:
        kept = [thread.submit(os.sched_getaffinity, 0).result() for thread in pair]
    assert [len(cores) for cores in kept] == [1, 1]
    assert kept[0] != kept[1]
    assert os.sched_getaffinity(0) == before
