"""The peak: the highest rate of requests at which an experiment that serves keeps a promise of latency."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit.errors import ExperimentError
from labkit.experiments import Experiment, experiment
from labkit.lab import ended_run, job_of, saved, writable
from labkit.metrics.promise import Peak, Promise, Trial, find_peak, judge_trial, read_promise
from labkit.metrics.requests import counted_requests
from labkit.metrics.window import steady_window
from labkit.result import Run
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from labkit.units import NS_PER_MS

SECONDS = 5.0
WARMUP = 20
BEGIN = 50.0
"""Requests per second to begin with where no rate is given."""
LONGEST = 12.0
"""How many times as long a trial may take where requests are rare."""


def peak(
    name: str | Experiment,
    *,
    slo: str | Promise,
    device: str = "auto",
    seconds: float = SECONDS,
    precision: float = 0.05,
    out: str | Path | None = None,
    on_trial: Callable[[Trial], None] | None = None,
    **knobs: Any,
) -> Peak:
    """Search for the highest `rate` at which the promise is kept; the knob `rate` is where the search begins.

    slo        "p99:50ms": at least 99 % of all requests are answered within 50 ms. It is also the promise of each run's own `slo` knob.
    seconds    of a trial, after its warm-up; longer where requests are rare, up to a dozen times
    precision  how far the rate that breaks it may lie above the one that is returned
    out        the runs folder to save every trial in
    Raises ExperimentError for an experiment that serves nothing, KnobError, DataError; RunFailed where a trial fails.
    """
    catalogued = experiment(name)
    if catalogued.arrivals is None:
        raise ExperimentError(f"experiment '{catalogued.name}' serves no requests: peak is for those that do, such as batching")
    promise = read_promise(slo) if isinstance(slo, str) else slo
    if knobs.get("replay"):
        raise ExperimentError("replay gives recorded arrivals, whose rate is what it is: leave it out to search for a peak")
    settings = {**knobs, "slo": promise.limit_ns / NS_PER_MS}
    chosen = catalogued.knobs.parse(settings)
    Budget(seconds=seconds)  # refused now, by the number that was given
    writable(out)
    with Workers() as workers:

        def try_at(rate: float, number: int) -> Trial:
            length = max(seconds, 1.2 * promise.needed / rate)
            run, trial = try_for(min(length, LONGEST * seconds), rate, number)
            while trial is not None and trial.n < promise.needed and length < LONGEST * seconds:  # they came in a lull
                length *= 2
                run, trial = try_for(min(length, LONGEST * seconds), rate, number)
            saved(run, out).checked()
            assert trial is not None, "a run that succeeded has a trace"
            if run.record.verdict.grade in ("WEAK", "INVALID"):
                trial = replace(trial, doubts=run.record.verdict.reasons)
            if on_trial is not None:
                on_trial(trial)
            return trial

        def try_for(length: float, rate: float, number: int) -> tuple[Run, Trial | None]:
            values = chosen.model_copy(update={"rate": rate, "seed": chosen.seed + number})
            job = job_of(catalogued, values, device, Budget(seconds=length, warmup=WARMUP))
            started = datetime.now().astimezone()
            run = ended_run(job, workers.run(job), started, None)
            if run.record.status != "ok" or run.trace is None:
                return run, None
            return run, judge_trial(promise, rate, counted_requests(run.trace, steady_window(run.trace, WARMUP), WARMUP))

        simulated = job_of(catalogued, chosen, device, Budget(steps=1)).simulated
        begin = BEGIN if chosen.rate is None else chosen.rate
        return find_peak(promise, try_at, begin, precision, measured=not simulated)
