"""The lab: an experiment by name, from Python, in one call. The command line and the notebooks call these functions too.

    run = labkit.run("pipeline", prefetch=4, device="cpu", seconds=10)
    both = labkit.compare("pipeline", a={"prefetch": 0}, b={"prefetch": 4})
    guess = labkit.predict("pipeline", machine="h200", prefetch=4)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit.device import resolve_device
from labkit.device.machine import (
    Machine,
    load_machine,
    this_machine_path,
    with_figures_of_hand,
    write_machine,
)
from labkit.errors import ExperimentError, StoreError
from labkit.experiments import Experiment, experiment
from labkit.knobs import Knobs
from labkit.knobs.grid import grid
from labkit.metrics.sequential import MOST_ROUNDS, Precision
from labkit.monitor.alerts import Rule, rules_of
from labkit.result import Compared, Run, Swept
from labkit.runner.alerting import with_alerts
from labkit.runner.calibrate import Calibration
from labkit.runner.calibrate import calibrate as measure_machine
from labkit.runner.compare import LABELS, Side, compare_sides, interleave, until_narrow
from labkit.runner.imported import imported_run
from labkit.runner.job import Frame, Job, Outcome, Recipe
from labkit.runner.measure import record_of
from labkit.runner.sweep import sweep as run_sweep
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from labkit.store import StoredRun, list_runs, load_run, new_run_id, save_run

OnFrame = Callable[[Frame], None]
DEFAULT_SECONDS, COMPARE_SECONDS, SWEEP_SECONDS = 10.0, 2.0, 5.0
LIVE_CAP = 100_000
"""Rows that the trace of a live run keeps: minutes of a measured one, and few enough to be summarised soon after a Stop."""


def run(
    name: str | Experiment,
    *,
    device: str = "auto",
    seconds: float | None = None,
    steps: int | None = None,
    warmup: int = Budget.warmup,
    out: str | Path | None = None,
    costs: Run | None = None,
    machine: Machine | None = None,
    pool: Workers | None = None,
    on_frame: OnFrame | None = None,
    alerts: str | Path | Iterable[Rule] | None = None,
    **knobs: Any,
) -> Run:
    """Run one experiment and return its record and trace; a failure is a record too.

    device        "auto", "cpu", "cuda", "cuda:1", "simulated:h200", ...
    seconds, steps  how long after `warmup` steps, whichever ends first; 10 seconds where neither is given
    out           the runs folder to save it in; None keeps it in memory
    costs         for a simulated device: a measured run whose op times go before the machine's figures
    machine       for a simulated device: a changed machine
    pool          warm workers to use again; None starts one for this run
    alerts        rules to check the run against, or the JSON file that has them; what they say is in the record
    knobs         the experiment's knobs by name

    Raises KnobError, NoSuchDevice, ExperimentError, MachineError, AlertError before anything runs; StoreError where it cannot be saved.
    """
    catalogued = experiment(name)
    values = catalogued.knobs.parse(knobs)
    budget = Budget(steps, DEFAULT_SECONDS if seconds is None and steps is None else seconds, warmup)
    job = job_of(catalogued, values, device, budget, costs, machine)
    rules = rules_of(alerts)
    writable(out)
    with _borrowed(pool) as workers:
        started = datetime.now().astimezone()
        return ended_run(job, workers.run(job, on_frame), started, out, inert_notes(knobs, job), rules)


def stored_run(name: str | Path, folder: str | Path = "runs") -> Run:
    """A run that was saved, by its id, the start or end of one, its folder, or "last". Raises StoreError."""
    stored = load_run(name, folder)
    return Run(stored.record, stored.trace, stored.path)


def import_trace(path: str | Path, out: str | Path | None = None) -> Run:
    """A trace of PyTorch's profiler as a run, saved in `out`. Raises TraceError, StoreError."""
    writable(out)
    started = datetime.now().astimezone()
    record, trace = imported_run(path, new_run_id("imported", started), started)
    return saved(Run(record, trace), out)


def predict(
    name: str | Experiment, *, on: str = "h200", costs: Run | None = None, steps: int = 200, **knobs: Any
) -> Run:
    """What a machine would do: the same kernel on the simulated device. `on` is a machine's name, "this" for the calibrated one."""
    return run(name, device=f"simulated:{on}", costs=costs, steps=steps, **knobs)


def compare(
    name: str | Experiment,
    *,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    beside: Mapping[str, Any] | None = None,
    device: str = "auto",
    seconds: float | None = None,
    steps: int | None = None,
    rounds: int | None = None,
    precision: float = Precision.share,
    budget_s: float = Precision.budget_s,
    warmup: int = Budget.warmup,
    out: str | Path | None = None,
    pool: Workers | None = None,
    on_frame: Callable[[int, str, Frame], None] | None = None,
) -> Compared:
    """Measure two settings in turns (A B, B A, …) until the interval of their ratio is narrow enough, and say how they compare.

    a, b            knob values of each side, over the defaults
    beside          a third setting to run in the same rounds: its op times predict A and B under equal conditions
    seconds, steps  how long each side runs in one round; 2 seconds where neither is given
    rounds          how often each side runs, 2 or more; None: until the interval reaches no further than `precision` to either side (0.05 is
                    5 %), 5 times at least, or `budget_s` seconds are spent, which is WEAK
    on_frame        told (round, side, frame)
    """
    check_rounds(MOST_ROUNDS if rounds is None else rounds)
    until = Precision(precision, budget_s) if rounds is None else None
    catalogued = experiment(name)
    budget = Budget(steps, COMPARE_SECONDS if seconds is None and steps is None else seconds, warmup)
    settings = [a, b] if beside is None else [a, b, beside]
    jobs = [job_of(catalogued, catalogued.knobs.parse(side), device, budget) for side in settings]
    notes = [inert_notes(side, job) for side, job in zip(settings, jobs, strict=True)]
    writable(out)
    with _borrowed(pool) as workers:
        return measure_in_turns(jobs, rounds or MOST_ROUNDS, workers, out=out, notes=notes, on_frame=on_frame, until=until)


def measure_in_turns(
    jobs: Sequence[Job],
    rounds: int,
    workers: Workers,
    *,
    out: str | Path | None = None,
    notes: Sequence[tuple[str, ...]] = ((), (), ()),
    on_frame: Callable[[int, str, Frame], None] | None = None,
    until: Precision | None = None,
) -> Compared:
    """Run the jobs of A, B and perhaps a third side in turns; each as a run, and how B compares with A.

    notes  for each side, words for its record
    until  when it is enough before all rounds are made
    """
    enough = (lambda outcomes: False) if until is None else until_narrow(jobs, until)
    started = datetime.now().astimezone()
    outcomes = interleave(jobs, rounds, workers, on_frame, enough)
    sides = [Side(label, job, tuple(runs)) for label, job, runs in zip(LABELS, jobs, outcomes, strict=False)]
    runs = [_side_run(side, started, out, note) for side, note in zip(sides, notes, strict=False)]
    return Compared(runs[0], runs[1], compare_sides(sides[0], sides[1], until), runs[2] if len(runs) > 2 else None)


def sweep(
    name: str | Experiment,
    axes: Mapping[str, Iterable[Any]],
    *,
    device: str = "auto",
    seconds: float | None = None,
    steps: int | None = None,
    warmup: int = Budget.warmup,
    out: str | Path | None = "runs",
    on_run: Callable[[int, int, Run], None] | None = None,
    **knobs: Any,
) -> Swept:
    """Run every combination of the axes. One whose successful record lies in `out` is not run again, except of a
    workload of your own: its record does not tell one model from another.

    out     None keeps them in memory
    on_run  told (how many are made, how many there are to make, the run)
    """
    catalogued = experiment(name)
    budget = Budget(steps, SWEEP_SECONDS if seconds is None and steps is None else seconds, warmup)
    points = grid(catalogued.knobs.parse(knobs), axes)
    jobs = [job_of(catalogued, point, device, budget) for point in points]
    writable(out)
    kept = _kept(out)
    there = [kept[job.key] for job in jobs if job.key in kept]
    made: list[Run] = []
    with Workers() as workers:
        for job, outcome in run_sweep(jobs, set(kept), workers):
            started = datetime.now().astimezone()
            notes = inert_notes({*knobs, *axes}, job)
            made.append(ended_run(job, outcome, started, out, notes))
            if on_run is not None:
                on_run(len(made), len(jobs) - len(there), made[-1])
            if made[-1].record.status == "cancelled":
                break
    return Swept(tuple(made), tuple(Run(run.record, None, run.path) for run in there))


def calibrate(progress: Callable[[str], None] | None = None) -> Calibration:
    """Measure this machine and write its figures, so that `simulated:this` predicts it."""
    calibration = measure_machine(progress)
    try:
        write_machine(with_figures_of_hand(calibration.machine, this_machine_path()), this_machine_path())
    except OSError as error:
        where = this_machine_path()
        raise StoreError(f"cannot write {where}: {error.strerror}; set LABKIT_HOME to a folder of yours") from error
    return calibration


def inert_notes(chosen: Iterable[str], job: Job) -> tuple[str, ...]:
    """For each chosen knob that cannot act on the job's device: why."""
    kind = job.machine.kind if job.machine is not None else job.device.partition(":")[0]
    reasons = {name: job.knobs.inert_reason(name, kind) for name in chosen}
    return tuple(f"{name}: {reason}" for name, reason in reasons.items() if reason)


def check_rounds(rounds: int) -> None:
    """Raises ExperimentError for a number of rounds that gives no interval."""
    if not 2 <= rounds <= 1000:
        raise ExperimentError(f"rounds={rounds} is out of range: 2 to 1000 are allowed (an interval needs two)")


def recipe_of(catalogued: Experiment) -> Recipe:
    """What the runner needs of an experiment."""
    return Recipe(catalogued.name, catalogued.kernel, catalogued.prepare, catalogued.widths, catalogued.content, catalogued.arrivals)


def writable(out: str | Path | None) -> None:
    """Make the runs folder before anything is measured. Raises StoreError where it cannot be written to."""
    if out is None:
        return
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".tmp-probe-{id(folder)}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise StoreError(f"cannot write to the runs folder {folder}: {error.strerror or error}; name another with out") from error


def job_of(
    catalogued: Experiment,
    knobs: Knobs,
    device: str,
    budget: Budget,
    costs: Run | None = None,
    machine: Machine | None = None,
    live: bool = False,
) -> Job:
    """What a worker needs to run this. Raises NoSuchDevice, MachineError, ExperimentError."""
    if machine is not None and (device == "auto" or device.startswith("simulated")):
        resolved = f"simulated:{machine.name}"
    else:
        resolved = resolve_device(device)
    if not resolved.startswith("simulated") and (costs is not None or machine is not None):
        raise ExperimentError(f"costs and machine are for a simulated device; {resolved} measures")
    if costs is not None and costs.record.experiment != catalogued.name:
        raise ExperimentError(f"run {costs.record.id} is one of {costs.record.experiment}: its op times say nothing of {catalogued.name}")
    measured = costs.costs() if costs is not None else None
    if resolved.startswith("simulated") and machine is None:
        machine = load_machine(resolved.partition(":")[2])
    cap = LIVE_CAP if live else Job.cap
    return Job(recipe_of(catalogued), knobs, resolved, budget, measured, machine, cap, live)


def ended_run(
    job: Job,
    outcome: Outcome,
    started: datetime,
    out: str | Path | None,
    notes: tuple[str, ...] = (),
    rules: Iterable[Rule] = (),
) -> Run:
    """A job that has ended, as a run: recorded, checked against `rules`, and saved where `out` says. Raises StoreError."""
    record = record_of(job, outcome, run_id=new_run_id(job.recipe.name, started), started=started, notes=notes)
    record = with_alerts(record, rules)
    return saved(Run(record, outcome.trace), out)


def saved(run: Run, out: str | Path | None) -> Run:
    """The run, saved in `out`; as it is where that is None. Raises StoreError."""
    return run if out is None else replace(run, path=save_run(out, run.record, run.trace))


def _kept(out: str | Path | None) -> dict[str, StoredRun]:
    """The runs in `out` that succeeded, by what they measured."""
    if out is None:
        return {}
    runs = [run for run in list_runs(out) if isinstance(run, StoredRun)]
    return {run.record.key: run for run in runs if run.record.status == "ok"}


def _side_run(side: Side, started: datetime, out: str | Path | None, notes: tuple[str, ...]) -> Run:
    run_id = f"{new_run_id(side.job.recipe.name, started)}-{side.label.lower()}"
    record = side.record(run_id, started, notes)
    trace = side.typical_trace
    return Run(record, trace, None if out is None else save_run(out, record, trace))


class _borrowed:
    """Workers for the time of a `with`: the caller's, left open, or new ones, closed."""

    def __init__(self, pool: Workers | None):
        self._own = pool is None
        self._workers = pool or Workers()

    def __enter__(self) -> Workers:
        return self._workers

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._workers.close()
