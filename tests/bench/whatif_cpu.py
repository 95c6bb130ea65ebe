"""What if, against what is: predicted gains of changes that can be made for real on the cpu device, beside their measurement.

Each change is a knob, so the simulated device predicts it from the op times of a run of the setting as it is; it knows that workers share
cores, which a replay with a wider lane does not. It is measured in the same rounds. Judged is the median of |predicted ÷ measured − 1|. There is no peer.
"""

from datetime import datetime
from statistics import median

from labkit import lab
from labkit.device.machine import Machine
from labkit.runner.calibrate import calibrate
from labkit.runner.workers import Workers
from tests.bench.measure import Line, progress, table
from tests.bench.runs import items_per_s, outcome_of, pipeline_job

NAME = "whatif-cpu"
TARGET = 0.12
PREDICTED_STEPS = 200
BASE = {"prefetch": 4, "workers": 1, "image_size": 96, "batch_size": 16, "normalise_on": "cpu"}
CHANGES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "workers 1 → 2": ({"model": "small", "image_size": 48}, {"workers": 2}),
    "prefetch 0 → 2": ({"prefetch": 0}, {"prefetch": 2}),
    "image_size 96 → 64": ({}, {"image_size": 64}),
    "augment on the other lane": ({}, {"augment_on": "gpu"}),
}
"""Change → what is different from `BASE` on both sides, and what is turned."""


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, steps = (1, 15) if quick else (5, 60)
    progress("calibrating")
    machine = calibrate(seconds_per_probe=0.1 if quick else 0.5).machine
    errors, rows = [], []
    details: dict[str, float] = {}
    with Workers() as workers:
        for name, (before, turned) in CHANGES.items():
            progress(name)
            _round({**BASE, **before}, turned, steps, workers, machine)  # not counted: everybody gets warm
            ratios = [_round({**BASE, **before}, turned, steps, workers, machine) for _ in range(rounds)]
            predicted, measured = (median(pair[side] for pair in ratios) for side in (0, 1))
            error = median(pair[0] / pair[1] - 1 for pair in ratios)
            errors.append(abs(error))
            details[name] = error
            rows.append([name, f"{predicted:.2f}×", f"{measured:.2f}×", f"{100 * error:+.1f} %"])
    print(table(["change", "predicted", "measured", "residual"], rows))
    return Line(
        name=NAME, ours=median(errors), peer=None, unit="median of |predicted ÷ measured − 1|", ratio=None, low=None, high=None, aa_ratio=None,
        rounds=rounds, passed=median(errors) <= TARGET, bound=f"median error <= {100 * TARGET:.0f} %", details=details,
    )  # fmt: skip


def _round(before: dict[str, object], turned: dict[str, object], steps: int, workers: Workers, machine: Machine) -> tuple[float, float]:
    """Predicted and measured throughput after ÷ before, of one round."""
    job, after = (pipeline_job(steps=steps, **knobs) for knobs in (before, {**before, **turned}))
    outcome = outcome_of(workers, job)
    was = items_per_s(outcome.trace, job.budget.warmup)
    is_now = items_per_s(outcome_of(workers, after).trace, after.budget.warmup)
    run = lab.ended_run(job, outcome, datetime.now().astimezone(), None)
    rates = [_predicted(run, knobs, machine) for knobs in (before, {**before, **turned})]
    return rates[1] / rates[0], is_now / was


def _predicted(run: lab.Run, knobs: dict[str, object], machine: Machine) -> float:
    made = lab.run("pipeline", device="simulated:this", costs=run, machine=machine, steps=PREDICTED_STEPS, warmup=12, **knobs).checked()
    assert made.summary is not None and made.summary.throughput.value is not None
    return made.summary.throughput.value
