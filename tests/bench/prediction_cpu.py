"""Op times measured at one setting predict eight others on the same machine: predicted and measured throughput, side by side.

The reference setting is measured anew right before and right after each of the others, and the prediction takes its op times
from those two runs: what the machine's mood did to the measurement, it did to the prediction as well. Shown beside it, and not
judged, is the prediction from the machine's calibrated figures alone.
"""

from statistics import median
from typing import NamedTuple

from labkit.device.cost_model import MeasuredCosts
from labkit.device.machine import Machine
from labkit.device.simulated import SimulatedDevice
from labkit.experiments.pipeline import prepare, widths
from labkit.kernels.pipeline import pipeline
from labkit.metrics.measured_costs import measured_costs
from labkit.runner.calibrate import calibrate
from labkit.runner.job import Job, Outcome
from labkit.runner.workers import Workers
from labkit.schedule import Budget, Steps
from tests.bench.measure import Line, progress, table
from tests.bench.predicted import prediction_line
from tests.bench.runs import items_per_s, outcome_of, pipeline_job

NAME = "prediction-cpu"
TARGET = 0.12
WARMUP = 12
PREDICTED_STEPS = 200


class Setting(NamedTuple):
    """A setting of the three knobs."""

    prefetch: int
    workers: int
    batch_size: int


REFERENCE = Setting(4, 1, 16)
OTHERS = (
    Setting(0, 1, 16),
    Setting(0, 2, 32),
    Setting(1, 1, 8),
    Setting(1, 1, 32),
    Setting(1, 2, 16),
    Setting(4, 1, 8),
    Setting(4, 2, 16),
    Setting(4, 2, 32),
)


class Pair(NamedTuple):
    """One setting in one round: throughput as measured, and as predicted from the reference runs beside it."""

    measured: float
    predicted: float


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, images = (1, 320) if quick else (5, 960)
    progress("calibrating")
    machine = calibrate(seconds_per_probe=0.1 if quick else 0.5).machine
    pairs: dict[Setting, list[Pair]] = {setting: [] for setting in OTHERS}
    references: list[float] = []
    with Workers() as workers:
        outcome_of(workers, _job(REFERENCE, images))
        for index in range(rounds):
            before = outcome_of(workers, _job(REFERENCE, images))
            references.append(items_per_s(before.trace, WARMUP))
            for setting in _rotated(index):
                progress(f"round {index + 1} of {rounds}: {setting}")
                job = _job(setting, images)
                measured = items_per_s(outcome_of(workers, job).trace, WARMUP)
                after = outcome_of(workers, _job(REFERENCE, images))
                predicted = [predicted_items_per_s(setting, machine, _costs(side)) for side in (before, after)]
                pairs[setting].append(Pair(measured, sum(predicted) / 2))
                references.append(items_per_s(after.trace, WARMUP))
                before = after
    return _line(pairs, references, machine, rounds)


def predicted_items_per_s(setting: Setting, machine: Machine, costs: MeasuredCosts | None) -> float:
    """What the simulated device says of a setting."""
    knobs = _job(setting, 0).knobs
    device = SimulatedDevice(machine, widths=widths(knobs), measured=costs)
    pipeline(device, prepare(knobs, "simulated"), Steps(knobs, Budget(steps=PREDICTED_STEPS, warmup=WARMUP), device.now))
    device.close()
    return items_per_s(device.recorder.finish(device.now()), WARMUP)


def _job(setting: Setting, images: int) -> Job:
    steps = max(images // setting.batch_size, 10)
    return pipeline_job(steps=steps, warmup=WARMUP, **setting._asdict())


def _costs(outcome: Outcome) -> MeasuredCosts:
    return measured_costs(outcome.trace, warmup_steps=WARMUP, source="the reference run", costs=outcome.costs)


def _rotated(index: int) -> tuple[Setting, ...]:
    first = index % len(OTHERS)
    return (*OTHERS[first:], *OTHERS[:first])


def _line(pairs: dict[Setting, list[Pair]], references: list[float], machine: Machine, rounds: int) -> Line:
    ratios = {setting: median(pair.predicted / pair.measured for pair in runs) for setting, runs in pairs.items()}
    errors = {setting: abs(ratio - 1) for setting, ratio in ratios.items()}
    measured = {setting: median(pair.measured for pair in runs) for setting, runs in pairs.items()}
    alone = {setting: predicted_items_per_s(setting, machine, None) / measured[setting] for setting in OTHERS}
    print(_table(pairs, ratios, alone))
    line = prediction_line(
        NAME, {_words(setting): ratio for setting, ratio in ratios.items()}, references, rounds, TARGET,
        {
            "from_figures_alone": {_words(setting): ratio for setting, ratio in alone.items()},
            "images_per_s": {_words(setting): rate for setting, rate in measured.items()},
        },
    )  # fmt: skip
    print(f"  op times measured at {_words(REFERENCE)}; median error {100 * line.ours:.1f} %, worst {100 * max(errors.values()):.1f} %; target ≤ {100 * TARGET:.0f} %")
    print(f"  from the machine's figures alone: median error {100 * median(abs(ratio - 1) for ratio in alone.values()):.0f} % (not judged)")
    return line


def _table(pairs: dict[Setting, list[Pair]], ratios: dict[Setting, float], alone: dict[Setting, float]) -> str:
    rows = [
        [
            _words(setting),
            f"{median(pair.predicted for pair in runs):.0f}",
            f"{median(pair.measured for pair in runs):.0f}",
            f"{100 * (ratios[setting] - 1):+.1f} %",
            f"{100 * (alone[setting] - 1):+.0f} %",
        ]
        for setting, runs in pairs.items()
    ]
    return table(["setting", "predicted images/s", "measured", "error", "figures alone"], rows)


def _words(setting: Setting) -> str:
    return f"prefetch {setting.prefetch}, workers {setting.workers}, batch {setting.batch_size}"


