"""A run beside its predictions: this machine only where it is calibrated for the device that the run was on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labkit import lab
from labkit.device.machine import load_machine, this_machine_path, write_machine
from labkit.notebook.predictions import beside_predictions, unpredictable
from labkit.runner.workers import Workers

SMALL = {"batch_size": 4, "image_size": 32}


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    with Workers() as workers:
        yield workers


@pytest.fixture(scope="module")
def measured(pool: Workers) -> lab.Run:
    """A run whose record says that it was measured on the first GPU; made on the virtual clock, so that it repeats."""
    run = lab.run("pipeline", device="simulated:t4", steps=30, pool=pool, **SMALL).checked()
    return replace(run, record=replace(run.record, device="cuda:0", device_label="GPU", measured=True))


@pytest.fixture
def calibrated(labkit_home: Path) -> Iterator[None]:
    """This machine is calibrated, as a T4; the warm workers see it too."""
    write_machine(replace(load_machine("t4"), name="this", label="this machine"), this_machine_path())
    yield
    this_machine_path().unlink()


def test_a_machine_that_is_not_calibrated_is_not_predicted_and_the_reason_says_so(measured: lab.Run, pool: Workers) -> None:
    assert "this machine has not been calibrated" in str(unpredictable(measured))
    labels = [shown.label for shown in beside_predictions(measured, "this run", pool=pool)]
    assert labels == ["this run", "what-if"]


@pytest.mark.usefixtures("calibrated")
def test_a_calibrated_machine_is_predicted_from_the_runs_own_op_times(measured: lab.Run, pool: Workers) -> None:
    assert unpredictable(measured) is None
    run, here, elsewhere = beside_predictions(measured, "this run", on="h200", pool=pool)
    assert (run.measured, here.measured, elsewhere.measured) == (True, False, False)
    assert (here.predicts, elsewhere.predicts) == ("this run", None)
    assert (here.device, elsewhere.device) == ("simulated this machine", "simulated H200")
    assert here.summary.throughput.value == pytest.approx(run.summary.throughput.value, rel=0.05)
    assert here.summary.steps == 208


@pytest.mark.usefixtures("calibrated")
def test_a_machine_calibrated_with_another_device_is_not_predicted(measured: lab.Run) -> None:
    on_cpu = replace(measured, record=replace(measured.record, device="cpu"))
    assert unpredictable(on_cpu) == "this machine is calibrated with its cuda as the device, and the run was on cpu"


@pytest.mark.usefixtures("calibrated")
def test_a_prediction_is_not_predicted_again(measured: lab.Run) -> None:
    simulated = replace(measured, record=replace(measured.record, device="simulated:t4", measured=False))
    assert unpredictable(simulated) == "the run is a prediction itself"
