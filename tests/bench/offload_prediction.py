"""Op times of the sequential program predict the streamed ones: twelve settings of offloading, simulated and measured on this machine's CPU.

As in `prediction-cpu`, the reference (nothing overlaps, nothing stays) is measured anew right before and after each of the others, and the
prediction takes its op times from those two runs. What is predicted is what overlap, buffers and layers that stay make of them.
"""

from statistics import median
from typing import Any, NamedTuple

from labkit.device.machine import Machine
from labkit.device.simulated import SimulatedDevice
from labkit.experiments import experiment
from labkit.experiments.offload import OffloadKnobs, prepare, widths
from labkit.kernels.offload import offload
from labkit.lab import job_of
from labkit.metrics.measured_costs import measured_costs
from labkit.runner.calibrate import calibrate
from labkit.runner.job import Job, Outcome
from labkit.runner.workers import Workers
from labkit.schedule import Budget, Steps
from tests.bench.measure import Line, progress, table
from tests.bench.predicted import prediction_line
from tests.bench.runs import items_per_s, outcome_of

NAME = "offload-prediction"
TARGET = 0.10
WARMUP = 4
SMALL = {"layers": 8, "width": 512}
GROUPS: tuple[dict[str, Any], ...] = (
    {"source": "host", "weights": "fp32", "batch_size": 8},
    {"source": "host", "weights": "int8", "batch_size": 8},
    {"source": "disk", "weights": "fp32", "batch_size": 64},
)
REFERENCE: dict[str, Any] = {"device_budget": 0.0, "prefetch": 0, "slots": 4}
OTHERS: tuple[dict[str, Any], ...] = (
    {"device_budget": 0.0, "prefetch": 1, "slots": 4},
    {"device_budget": 0.0, "prefetch": 3, "slots": 4},
    {"device_budget": 0.5, "prefetch": 0, "slots": 4},
    {"device_budget": 0.5, "prefetch": 3, "slots": 4},
)


class Pair(NamedTuple):
    """One setting in one round: passes' rows per second as measured, and as predicted from the reference runs beside it."""

    measured: float
    predicted: float


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, passes = (1, 20) if quick else (5, 60)
    progress("calibrating")
    machine = calibrate(seconds_per_probe=0.1 if quick else 0.3).machine
    pairs: dict[str, list[Pair]] = {}
    references: list[float] = []
    for group in GROUPS:
        with Workers() as workers:
            outcome_of(workers, _job(group, REFERENCE, passes))
            before = outcome_of(workers, _job(group, REFERENCE, passes))
            for index in range(rounds):
                for place in range(len(OTHERS)):
                    other = OTHERS[(place + index) % len(OTHERS)]
                    progress(f"round {index + 1} of {rounds}: {_words(group, other)}")
                    measured = items_per_s(outcome_of(workers, _job(group, other, passes)).trace, WARMUP)
                    after = outcome_of(workers, _job(group, REFERENCE, passes))
                    predicted = [_predicted(group, other, machine, side) for side in (before, after)]
                    pairs.setdefault(_words(group, other), []).append(Pair(measured, sum(predicted) / 2))
                    references.append(items_per_s(after.trace, WARMUP))
                    before = after
    return _line(pairs, references, rounds)


def _predicted(group: dict[str, Any], other: dict[str, Any], machine: Machine, reference: Outcome) -> float:
    knobs = OffloadKnobs.parse({**SMALL, **group, **other})
    costs = measured_costs(reference.trace, warmup_steps=WARMUP, source="the reference run", costs=reference.costs)
    device = SimulatedDevice(machine, widths=widths(knobs), measured=costs)
    offload(device, prepare(knobs, "simulated"), Steps(knobs, Budget(steps=40, warmup=WARMUP), device.now))
    device.close()
    return items_per_s(device.recorder.finish(device.now()), WARMUP)


def _job(group: dict[str, Any], other: dict[str, Any], passes: int) -> Job:
    catalogued = experiment("offload")
    return job_of(catalogued, catalogued.knobs.parse({**SMALL, **group, **other}), "cpu", Budget(steps=passes, warmup=WARMUP))


def _line(pairs: dict[str, list[Pair]], references: list[float], rounds: int) -> Line:
    ratios = {words: median(pair.predicted / pair.measured for pair in runs) for words, runs in pairs.items()}
    rows = [
        [words, f"{median(pair.predicted for pair in runs):.0f}", f"{median(pair.measured for pair in runs):.0f}", f"{100 * (ratios[words] - 1):+.1f} %"]
        for words, runs in pairs.items()
    ]
    print(table(["setting", "predicted rows/s", "measured", "error"], rows))
    line = prediction_line(NAME, ratios, references, rounds, TARGET)
    worst = max(abs(ratio - 1) for ratio in ratios.values())
    print(f"  op times measured with nothing overlapping and nothing kept; median error {100 * line.ours:.1f} %, worst {100 * worst:.1f} %; target ≤ {100 * TARGET:.0f} %")
    return line


def _words(group: dict[str, Any], other: dict[str, Any]) -> str:
    where = f"{group['source']}, {group['weights']}, batch {group['batch_size']}"
    return f"{where}: {100 * other['device_budget']:.0f} % stay, prefetch {other['prefetch']}"
