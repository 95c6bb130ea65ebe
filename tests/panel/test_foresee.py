"""The answers to a guess: what the simulator predicts, and what was found."""

from pathlib import Path

import pytest

from labkit import lab
from labkit.device.machine import load_machine, write_machine
from labkit.experiments import experiment
from labkit.panel.foresee import foreseen, found
from labkit.panel.setting import Pinned, Setting
from labkit.result import Compared
from labkit.runner.workers import Workers

PIPELINE = experiment("pipeline")
SMALL = {"image_size": 32, "batch_size": 4}
CPU_FIGURES = {"cores": 4, "decode_pixels_per_s": 2e8, "host_flop_per_s": 5e10, "host_bytes_per_s": 1e10, "link_h2d_bytes_per_s": 1e10, "link_d2h_bytes_per_s": 1e10}


def setting(device: str, **knobs: object) -> Setting:
    return Setting(PIPELINE, PIPELINE.knobs.parse({**SMALL, **knobs}), device)


@pytest.fixture(scope="module")
def workers():
    with Workers() as pool:
        yield pool


@pytest.fixture
def calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """This machine as it would be after a calibration."""
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))

    def calibrate(kind: str) -> None:
        from dataclasses import replace

        from labkit.device.machine import Figure, this_machine_path

        figures = {name: Figure(value, "a test") for name, value in CPU_FIGURES.items()}
        write_machine(replace(load_machine("t4"), name="this", label="this machine", kind=kind, figures=figures), this_machine_path())

    return calibrate


@pytest.fixture(scope="module")
def simulated() -> Compared:
    return lab.compare("pipeline", a={**SMALL, "prefetch": 0}, b={**SMALL, "prefetch": 4}, device="simulated:t4", steps=60, rounds=2)


def test_without_an_a_nothing_is_predicted(workers: Workers):
    assert foreseen(None, setting("cpu"), workers).reason == "nothing is pinned as A to compare with"


def test_a_simulated_setting_is_predicted_by_its_own_machine(workers: Workers, simulated: Compared):
    answer = foreseen(Pinned(setting("simulated:t4", prefetch=0)), setting("simulated:t4", prefetch=4), workers)
    assert answer.ratio == pytest.approx(simulated.comparison.ratios["throughput"].value, rel=0.02)
    assert (answer.measured, answer.label) == (False, "simulated T4")


def test_the_cpu_is_predicted_once_it_has_been_calibrated(workers: Workers, calibrated):
    a, b = Pinned(setting("cpu", prefetch=0)), setting("cpu", prefetch=4)
    assert "labkit calibrate" in foreseen(a, b, workers).reason
    calibrated("cpu")
    answer = foreseen(a, b, workers)
    assert answer.ratio > 1
    assert answer.label == "simulated this machine"


def test_a_machine_calibrated_with_its_gpu_does_not_predict_the_cpu(workers: Workers, calibrated):
    calibrated("cuda")
    answer = foreseen(Pinned(setting("cpu")), setting("cpu", prefetch=4), workers)
    assert answer.reason == "this machine is calibrated with its cuda as the device"


def test_what_was_simulated_is_no_measurement(simulated: Compared):
    answer = found(simulated, simulated.a.shown("A"), simulated.b.shown("B"))
    assert (answer.ratio, answer.reason) == (None, "simulated: nothing was measured")


def test_measured_in_turns_it_has_an_interval_and_else_none():
    both = lab.compare("pipeline", a=SMALL, b={**SMALL, "prefetch": 4}, device="cpu", seconds=0.3, rounds=2)
    a, b = both.a.shown("A"), both.b.shown("B")
    in_turns, apart = found(both, a, b), found(None, a, b)
    assert in_turns.low <= in_turns.ratio <= in_turns.high
    assert (apart.low, apart.label) == (None, "CPU threads, not in turns")
    assert found(None, None, b).reason == "A and B have not both been measured"
