"""A measured run beside predictions of it: this machine's, from the run's own op times, and another machine's."""

from dataclasses import replace

from labkit import lab
from labkit.device.machine import load_machine
from labkit.errors import MachineError
from labkit.figures.shown import Shown
from labkit.runner.workers import Workers

STEPS = 200


def beside_predictions(run: lab.Run, label: str, *, on: str = "h200", pool: Workers | None = None) -> list[Shown]:
    """The run as `label`; the prediction for this machine, where `unpredictable` gives no reason; the one for `on`."""
    shown = [run.shown(label)]
    if unpredictable(run) is None:
        again = _predict(run, "this", run, pool).shown("predicted")
        shown.append(replace(again, predicts=label))
    return [*shown, _predict(run, on, None, pool).shown("what-if")]


def unpredictable(run: lab.Run) -> str | None:
    """Why this machine cannot be predicted from the op times of a run; None where it can."""
    if not run.record.measured:
        return "the run is a prediction itself"
    try:
        machine = load_machine("this")
    except MachineError as error:
        return str(error)
    if machine.kind != run.record.device.partition(":")[0]:
        return f"this machine is calibrated with its {machine.kind} as the device, and the run was on {run.record.device}"
    return None


def _predict(run: lab.Run, machine: str, costs: lab.Run | None, pool: Workers | None) -> lab.Run:
    return lab.run(
        run.record.experiment,
        device=f"simulated:{machine}",
        steps=STEPS,
        costs=costs,
        pool=pool,
        **run.record.knobs,
    )
