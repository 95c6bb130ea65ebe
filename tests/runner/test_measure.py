"""Energy and cost in the record: of a measured run, of rounds, of a simulated machine, and why there is none."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from labkit.device.machine import Figure, Machine, write_machine
from labkit.metrics.energy import COST, ENERGY, NO_MACHINE, NO_POWER, NO_PRICE, NO_SENSOR
from labkit.runner import measure as measure_module
from labkit.runner.compare import Side
from labkit.runner.execute import execute
from labkit.runner.job import Job, Outcome
from labkit.runner.measure import record_of
from labkit.runner.record import RunRecord
from tests.runner.naps import MACHINE, Naps, nap_job

NAP_S = 2.0


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    return tmp_path / "machines" / "this.yaml"


def priced(**figures: float) -> Machine:
    return replace(MACHINE, figures={**MACHINE.figures, **{name: Figure(value, "the invoice of May") for name, value in figures.items()}})


def outcome_of(job: Job, watts: float | None = None) -> Outcome:
    """What the run of naps gives; with a counter that went up by `watts`, read once a second, the last time as the device was closed."""
    outcome = execute(job, Naps())
    if watts is None:
        return outcome
    end_ns = outcome.trace.end_ns
    samples = [[1_000_000_000_000 + ns, watts * ns / 1e9] for ns in range(end_ns % 1_000_000_000, end_ns + 1, 1_000_000_000)]
    return replace(outcome, monitor={"cpu_energy_j": {"unit": "J", "n": len(samples), "mean": 1.0, "samples": samples, "reason": None}})


def naps(**more: Any) -> Job:
    return nap_job(steps=20, nap_ms=int(NAP_S * 1000), **more)


def on_cpu(job: Job) -> Job:
    return replace(job, device="cpu", machine=None)


def record(job: Job, outcome: Outcome) -> RunRecord:
    return record_of(job, outcome, run_id="id", started=datetime.now(UTC))


def test_a_measured_run_has_the_joules_of_an_item(no_calibration: Any):
    job = naps()
    energy = record(on_cpu(job), outcome_of(job, watts=30.0)).energy_metrics[ENERGY]
    assert energy.value == pytest.approx(30.0 * NAP_S)
    assert energy.n > 30


def test_the_samples_of_the_counter_are_not_kept_in_the_record(no_calibration: Any):
    job = naps()
    assert set(record(on_cpu(job), outcome_of(job, watts=30.0)).monitor["cpu_energy_j"]) == {"unit", "n", "mean", "reason"}


def test_without_a_sensor_and_a_machine_file_both_are_absent_with_their_reasons(no_calibration: Any):
    job = naps()
    energy = record(on_cpu(job), outcome_of(job)).energy_metrics
    assert (energy[ENERGY].value, energy[ENERGY].reason) == (None, NO_SENSOR)
    assert (energy[COST].value, energy[COST].reason) == (None, NO_MACHINE)


def test_a_price_in_the_file_of_this_machine_gives_a_cost(no_calibration: Any):
    write_machine(replace(priced(price_usd_per_hour=1.8), name="this"), no_calibration)
    job = naps()
    cost = record(on_cpu(job), outcome_of(job)).energy_metrics[COST]
    assert cost.value == pytest.approx(1.8 / 3600 * NAP_S * 1e6)
    assert cost.definition.endswith("1.8 USD an hour: the invoice of May")


def test_a_simulated_machine_has_an_estimate_and_says_that_it_is_predicted(no_calibration: Any):
    job = replace(naps(), machine=priced(power_w=50.0, price_usd_per_hour=3.6))
    energy = record(job, outcome_of(job)).energy_metrics
    busy = record(job, outcome_of(job)).metrics["utilization"]["compute"]["value"]
    assert energy[ENERGY].value == pytest.approx(50.0 * busy * NAP_S, rel=1e-3)
    assert "predicted" in energy[ENERGY].definition and "predicted" in energy[COST].definition
    plain = record(naps(), outcome_of(naps())).energy_metrics
    assert (plain[ENERGY].reason, plain[COST].reason) == (NO_POWER, NO_PRICE)


def test_the_energy_of_a_side_is_that_of_all_its_rounds(no_calibration: Any):
    job = naps()
    side = Side("A", on_cpu(job), (outcome_of(job, watts=30.0), outcome_of(job, watts=60.0)))
    assert side.record("id", datetime.now(UTC), ()).energy_metrics[ENERGY].value == pytest.approx(45.0 * NAP_S)


def test_a_run_that_left_no_metrics_has_no_energy(no_calibration: Any):
    assert record(on_cpu(naps()), Outcome("failed", "killed", None, 1.0)).energy == {}


def test_a_machine_whose_file_is_gone_is_an_absence(no_calibration: Any, monkeypatch: pytest.MonkeyPatch):
    outcome = outcome_of(naps())
    monkeypatch.setattr(measure_module, "_machine", lambda job: None)
    assert "gone" in record(naps(), outcome).energy_metrics[ENERGY].reason
