"""Predict first: what the simulator says of B beside A, and what was found in the end, as answers to a guess."""

from dataclasses import replace

from labkit.device.machine import Machine, load_machine
from labkit.errors import LabkitError, RunFailed
from labkit.figures.guess import Answer
from labkit.figures.shown import Shown
from labkit.metrics.summary import summarize
from labkit.panel.setting import Pinned, Setting
from labkit.result import Compared, Run
from labkit.runner.workers import Workers
from labkit.schedule import Budget

STEPS = 200


def foreseen(a: Pinned | None, b: Setting, workers: Workers) -> Answer:
    """What the simulator predicts of B ÷ A: both run on the simulated device, from A's op times where A was measured."""
    if a is None:
        return _no_prediction("nothing is pinned as A to compare with")
    try:
        machine = load_machine("this") if b.machine is None else b.machine
        if b.machine is None and machine.kind != b.kind:
            return _no_prediction(f"this machine is calibrated with its {machine.kind} as the device")
        costs = a.run if a.run is not None and a.run.record.measured and not b.simulated else None
        before, after = (_simulated(setting, machine, costs, workers) for setting in (a.setting, b))
    except LabkitError as error:
        return _no_prediction(str(error))
    return _answer(before, after, f"simulated {machine.label}", measured=False)


def found(compared: Compared | None, a: Shown | None, b: Shown | None) -> Answer:
    """What came out: the ratio with its interval where A and B took turns; of two separate runs the ratio alone."""
    if b is not None and not b.measured:
        return _no_measurement("simulated: nothing was measured")
    if a is None or b is None:
        return _no_measurement("A and B have not both been measured")
    if compared is None:
        return _answer(a, b, f"{b.device_label}, not in turns", measured=True)
    ratio = compared.comparison.ratios.get("throughput")
    if ratio is None or ratio.value is None:
        return _no_measurement(compared.comparison.sentence)
    return Answer(ratio.value, ratio.low, ratio.high, bottleneck_lane(b), b.device_label, True)


def bottleneck_lane(shown: Shown) -> str | None:
    """The lane that is busy for the largest share of the time."""
    shares = {lane: metric.value for lane, metric in shown.summary.utilization.items() if metric.value is not None}
    return max(shares, key=lambda lane: shares[lane] or 0.0) if shares else None


def _simulated(setting: Setting, machine: Machine, costs: Run | None, workers: Workers) -> Shown:
    """A setting on the simulated device: its own machine where it is simulated, else the one that stands for this one."""
    there = setting if setting.simulated else replace(setting, device=f"simulated:{machine.name}")
    job = there.job(Budget(steps=STEPS), costs=costs)
    outcome = workers.run(job)
    if outcome.status != "ok" or outcome.trace is None:
        raise RunFailed(f"the simulation {outcome.status}: {outcome.failure}")
    return Shown("", machine.label, False, summarize(outcome.trace, warmup_steps=job.budget.warmup), outcome.trace)


def _answer(a: Shown, b: Shown, label: str, *, measured: bool) -> Answer:
    before, after = a.summary.throughput.value, b.summary.throughput.value
    if not before or not after:
        return Answer(None, None, None, None, label, measured, "A or B has no throughput")
    return Answer(after / before, None, None, bottleneck_lane(b), label, measured)


def _no_prediction(reason: str) -> Answer:
    return Answer(None, None, None, None, "", False, reason)


def _no_measurement(reason: str) -> Answer:
    return Answer(None, None, None, None, "", True, reason)
