"""Energy and cost per item: from counters inside the steady window, from the machine's figures where it is simulated, else absent."""

from dataclasses import replace

import pytest

from labkit.device.machine import Figure, Machine, load_machine
from labkit.metrics import summarize
from labkit.metrics.energy import (
    NO_MACHINE,
    NO_POWER,
    NO_PRICE,
    NO_SENSOR,
    Power,
    cost_per_million,
    energy_per_item,
    mean_power,
    measured_power,
    predicted_power,
)
from labkit.metrics.metric import Metric
from labkit.units import NS_PER_S
from tests.metrics.virtual_runs import pipeline, run

RATE = Metric("throughput", 200.0, "items/s", 100, "items ÷ time", "higher")
NOTHING = Metric("throughput", None, "items/s", 0, "items ÷ time", "higher", "nothing completed after the warm-up")
CLOCK_NS = 5_000 * NS_PER_S
"""What the host's clock shows when the device is closed."""


def counter(*samples: tuple[float, float | None], reason: str | None = None) -> dict[str, object]:
    """The summary of a counter: (seconds before the end, joules)."""
    return {"unit": "J", "n": len(samples), "samples": [[CLOCK_NS - round(ago * NS_PER_S), joules] for ago, joules in samples], "reason": reason}


def of(monitor: dict[str, object], device: str = "cuda:0", window_s: tuple[float, float] = (1.0, 5.0), closed_s: float = 5.0) -> Power:
    begin, end = (round(second * NS_PER_S) for second in window_s)
    return measured_power(monitor, (begin, end), round(closed_s * NS_PER_S), device)


def machine(**figures: float) -> Machine:
    return Machine("toy", "toy", "cuda", {name: Figure(value, "page 3 of its data sheet") for name, value in figures.items()})


def test_power_is_the_counter_s_difference_inside_the_steady_window():
    """At 300 W, after a warm-up at 100 W that ends one second after the opening."""
    power = of({"gpu_energy_j": counter((5.0, 0.0), (4.5, 50.0), (4.0, 100.0), (2.0, 700.0), (0.0, 1300.0))})
    assert (power.watts, power.n) == (300.0, 3)
    assert power.how.startswith("the GPU's board (NVML energy counter); without the processor: no sensor")


def test_what_comes_after_the_last_completion_is_not_counted():
    monitor = {"gpu_energy_j": counter((4.0, 0.0), (2.0, 600.0), (1.0, 600.0), (0.0, 600.0))}
    assert of(monitor, window_s=(1.0, 3.0)).watts == 300.0
    assert of(monitor, window_s=(1.0, 4.0)).watts == 200.0


def test_a_missed_sample_is_not_zero_joules():
    assert of({"gpu_energy_j": counter((4.0, 100.0), (3.0, None), (2.0, 700.0))}).watts == 300.0


@pytest.mark.parametrize(("samples", "read"), [([(4.9, 10.0), (2.0, 900.0)], 1), ([(4.9, 10.0), (4.5, 900.0)], 0)])
def test_a_window_with_fewer_than_two_samples_has_no_power(samples: list, read: int):
    monitor = {"cpu_energy_j": counter(*samples, (0.0, None))}
    assert of(monitor, "cpu").reason == f"the energy counter was read {read} times in the steady window; 2 are needed: run longer"


def test_a_cuda_run_adds_the_processor_where_it_has_a_counter():
    monitor = {"gpu_energy_j": counter((4.0, 0.0), (0.0, 1200.0)), "cpu_energy_j": counter((4.0, 0.0), (0.0, 200.0))}
    power = of(monitor)
    assert power.watts == 350.0
    assert power.how == "the GPU's board (NVML energy counter) and the processor packages (RAPL), with all that runs on the machine"


def test_without_an_energy_counter_the_mean_of_the_power_readings_is_taken():
    absent = {"unit": "J", "n": 0, "mean": None, "reason": "Not Supported"}
    watts = {"unit": "W", "n": 8, "mean": 250.0, "reason": None}
    power = of({"gpu_energy_j": absent, "gpu_power_w": watts})
    assert (power.watts, power.n) == (250.0, 8)
    assert of({"gpu_energy_j": absent}) == Power(None, reason="Not Supported")


def test_the_processor_alone_is_not_the_energy_of_a_cuda_run():
    assert of({"cpu_energy_j": counter((4.0, 0.0), (0.0, 200.0))}) == Power(None, reason=NO_SENSOR)


def test_a_cpu_run_without_a_counter_says_why():
    rapl = {"unit": "J", "n": 0, "mean": None, "reason": "no sensor: no RAPL counter can be read here, needs root"}
    assert of({"cpu_energy_j": rapl, "gpu_power_w": {"n": 3, "mean": 90.0}}, "cpu").reason == rapl["reason"]
    assert of({}, "cpu").reason == NO_SENSOR


def test_energy_per_item_is_power_over_throughput():
    energy = energy_per_item(Power(300.0, 9, "the GPU's board"), RATE)
    assert (energy.value, energy.unit, energy.n, energy.better, energy.reason) == (1.5, "J/item", 9, "lower", None)
    assert energy.definition == "mean power in the steady window ÷ throughput; the GPU's board"


def test_energy_is_absent_with_the_reason_of_what_is_missing():
    assert energy_per_item(Power(None, reason=NO_SENSOR), RATE).reason == NO_SENSOR
    assert energy_per_item(Power(300.0), NOTHING).reason == NOTHING.reason
    assert energy_per_item(Power(300.0), replace(RATE, value=0.0)).reason == "nothing was completed"


def test_the_power_of_rounds_is_weighted_by_their_windows_and_absent_where_one_is():
    assert mean_power([(Power(100.0, 4, "board"), 1e9), (Power(400.0, 6, "board"), 2e9)]) == Power(300.0, 10, "board")
    assert mean_power([(Power(100.0), 1e9), (Power(None, reason="lost"), 1e9)]).reason == "lost"
    assert mean_power([]).reason == NO_SENSOR


def test_a_simulated_machine_draws_its_board_power_while_compute_is_busy():
    summary = summarize(run(lambda device: pipeline(device, 40, prefetch=2)), warmup_steps=10)
    assert summary.utilization["compute"].value == 0.9
    power = predicted_power(machine(power_w=700.0), summary)
    assert power.watts == pytest.approx(630.0)
    assert power.how.startswith("predicted, an estimate: ") and "upper bound" in power.how
    assert predicted_power(machine(power_w=700.0, idle_power_w=100.0), summary).watts == pytest.approx(100 + 600 * 0.9)
    assert predicted_power(machine(idle_power_w=100.0), summary) == Power(None, reason=NO_POWER)
    assert predicted_power(machine(power_w=700.0), replace(summary, utilization={})).watts is None


def test_cost_is_the_price_of_an_hour_over_the_items_of_one():
    """200 items/s are 720 000 an hour: at 3.60 USD an hour a million costs 5 USD."""
    cost = cost_per_million(machine(price_usd_per_hour=3.6), RATE, measured=True)
    assert (cost.value, cost.unit, cost.n, cost.better) == (pytest.approx(5.0), "USD per million items", 100, "lower")
    assert cost.definition == "price of an hour × time ÷ items; 3.6 USD an hour: page 3 of its data sheet"
    assert cost_per_million(machine(price_usd_per_hour=3.6), RATE, measured=False).definition.startswith("predicted: ")


def test_cost_is_absent_with_the_reason_of_what_is_missing():
    assert cost_per_million(machine(), RATE, measured=True).reason == NO_PRICE
    assert cost_per_million(None, RATE, measured=True).reason == NO_MACHINE
    assert cost_per_million(machine(price_usd_per_hour=3.6), NOTHING, measured=True).reason == NOTHING.reason
    assert cost_per_million(load_machine("h200"), RATE, measured=False).value is None
