"""Energy and cost per item: the mean power over the steady window ÷ throughput, and the price of an hour ÷ the items of one.

Measured: the difference of a counter between its first and its last sample inside the window, so that neither the warm-up nor the end is in
it; where a GPU has no counter, the mean of its power readings. Simulated: an estimate from the machine's figures, called predicted.
What cannot be known is absent with its reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labkit.device.machine import Machine
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary
from labkit.units import NS_PER_S, significant

ENERGY, COST = "energy per item", "cost per million items"
ENERGY_UNIT, COST_UNIT = "J/item", "USD per million items"

GPU_ENERGY, GPU_POWER, CPU_ENERGY = "gpu_energy_j", "gpu_power_w", "cpu_energy_j"
SAMPLES_WANTED = 2

NO_PRICE = "the machine file has no price: add price_usd_per_hour"
NO_POWER = "the machine file has no power: add power_w"
NO_MACHINE = "this machine has no file: run `labkit calibrate`, then add price_usd_per_hour to what it wrote"
NO_SENSOR = "no sensor: the run left no reading of energy or power"


@dataclass(frozen=True)
class Power:
    """The mean power of a run over its steady window.

    watts  None where it is not known; `reason` then says why
    n      samples that it rests on
    how    whose power, and how it was had, in words
    """

    watts: float | None
    n: int = 0
    how: str = ""
    reason: str | None = None


def measured_power(monitor: Mapping[str, Any], window_ns: tuple[int, int], closed_ns: int, device: str) -> Power:
    """What a measured run drew: the GPU of a cuda run, and the processor packages where they have a counter.

    monitor    the sensors' summaries, with the samples of the counters
    window_ns  the steady window, and `closed_ns` the end of the trace, in the device's time; the last sample was taken then
    """
    span = window_ns[0] - closed_ns, window_ns[1] - closed_ns
    cpu = _of_counter(monitor, CPU_ENERGY, span, "processor packages (RAPL), with all that runs on the machine")
    if not device.startswith("cuda"):
        return cpu
    gpu = _of_counter(monitor, GPU_ENERGY, span, "the GPU's board (NVML energy counter)")
    if gpu.watts is None:
        gpu = _of_readings(monitor, gpu.reason)
    if gpu.watts is None or cpu.watts is None:
        return replace(gpu, how=f"{gpu.how}; without the processor: {cpu.reason}") if gpu.watts is not None else gpu
    return Power(gpu.watts + cpu.watts, min(gpu.n, cpu.n), f"{gpu.how} and the {cpu.how}")


def predicted_power(machine: Machine, summary: Summary) -> Power:
    """What a simulated machine would draw: its idle power and the rest of its board power while `compute` is busy."""
    board, idle = machine.get("power_w"), machine.get("idle_power_w")
    busy = summary.utilization.get("compute")
    if board is None:
        return Power(None, reason=NO_POWER)
    if busy is None or busy.value is None:
        return Power(None, reason="the compute lane's busy share is not known")
    if idle is None:
        how = "board power × busy share of compute; an upper bound of what computing draws, idling left out"
        return Power(board * busy.value, busy.n, f"predicted, an estimate: {how}")
    how = "idle power + (board power − idle power) × busy share of compute; an upper bound"
    return Power(idle + max(board - idle, 0.0) * busy.value, busy.n, f"predicted, an estimate: {how}")


def mean_power(rounds: Sequence[tuple[Power, float]]) -> Power:
    """The mean over rounds, each with the length of its window; absent where one of them is."""
    absent = next((power for power, _ in rounds if power.watts is None), None)
    whole = sum(length for _, length in rounds)
    if absent is not None or not whole:
        return absent or Power(None, reason=NO_SENSOR)
    watts = sum((power.watts or 0.0) * length for power, length in rounds) / whole
    return Power(watts, sum(power.n for power, _ in rounds), rounds[0][0].how)


def energy_per_item(power: Power, throughput: Metric) -> Metric:
    """Joules per item."""
    definition = f"mean power in the steady window ÷ throughput; {power.how or 'no power is known'}"
    reason = power.reason if power.watts is None else throughput.reason if not throughput.value else None
    if power.watts is None or not throughput.value:
        return Metric(ENERGY, None, ENERGY_UNIT, 0, definition, "lower", reason or "nothing was completed")
    return Metric(ENERGY, power.watts / throughput.value, ENERGY_UNIT, power.n, definition, "lower")


def cost_per_million(machine: Machine | None, throughput: Metric, measured: bool) -> Metric:
    """USD for a million items, at the machine's price by the hour."""
    price = None if machine is None else machine.figures.get("price_usd_per_hour")
    told = "" if price is None else f"; {significant(price.value)} USD an hour: {price.source}"
    definition = f"{'' if measured else 'predicted: '}price of an hour × time ÷ items{told}"
    if price is None:
        return Metric(COST, None, COST_UNIT, 0, definition, "lower", NO_MACHINE if machine is None else NO_PRICE)
    if not throughput.value:
        return Metric(COST, None, COST_UNIT, 0, definition, "lower", throughput.reason or "nothing was completed")
    return Metric(COST, price.value / 3600 / throughput.value * 1e6, COST_UNIT, throughput.n, definition, "lower")


def _of_counter(monitor: Mapping[str, Any], name: str, span_ns: tuple[int, int], how: str) -> Power:
    """Mean power between the first and the last sample of a counter of joules inside the span, which counts back from the last sample."""
    summary = monitor.get(name)
    if not isinstance(summary, Mapping) or not summary.get("samples"):
        reason = summary.get("reason") if isinstance(summary, Mapping) else None
        return Power(None, reason=reason or NO_SENSOR)
    last_ns = summary["samples"][-1][0]
    inside = [(at, joules) for at, joules in summary["samples"] if joules is not None and span_ns[0] <= at - last_ns <= span_ns[1]]
    if len(inside) < SAMPLES_WANTED or inside[-1][0] == inside[0][0]:
        return Power(None, reason=f"the energy counter was read {len(inside)} times in the steady window; {SAMPLES_WANTED} are needed: run longer")
    watts = (inside[-1][1] - inside[0][1]) * NS_PER_S / (inside[-1][0] - inside[0][0])
    return Power(watts, len(inside), how)


def _of_readings(monitor: Mapping[str, Any], reason: str | None) -> Power:
    """The mean of the GPU's power readings."""
    summary = monitor.get(GPU_POWER)
    mean = summary.get("mean") if isinstance(summary, Mapping) else None
    if not isinstance(summary, Mapping) or mean is None:
        return Power(None, reason=reason)
    return Power(float(mean), int(summary["n"]), "the GPU's board (mean of NVML's power readings, warm-up included)")
