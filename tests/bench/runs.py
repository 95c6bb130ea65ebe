"""Runs of the shipped pipeline experiment for benchmarks: in a warm worker process, as people run it."""

import numpy as np

from labkit.experiments import experiment
from labkit.lab import recipe_of
from labkit.metrics.throughput import throughput
from labkit.metrics.window import steady_window
from labkit.runner.job import Job, Outcome
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from labkit.trace import KIND_OP, Trace
from tests.bench.measure import BenchError


def pipeline_job(device: str = "cpu", *, steps: int, warmup: int = 12, **knobs: object) -> Job:
    """One run of the pipeline experiment: `steps` steps after its warm-up."""
    catalogued = experiment("pipeline")
    return Job(recipe_of(catalogued), catalogued.knobs.parse(knobs), device, Budget(steps=steps, warmup=warmup))


def outcome_of(workers: Workers, job: Job) -> Outcome:
    """Run a job. Raises BenchError where it did not succeed."""
    outcome = workers.run(job)
    if outcome.status != "ok" or outcome.trace is None:
        raise BenchError(f"a run of {job.recipe.name} {outcome.status}: {outcome.failure}\n{outcome.detail}")
    return outcome


def items_per_s(trace: Trace, warmup: int) -> float:
    """Throughput over the steady window."""
    value = throughput(trace, steady_window(trace, warmup)).value
    if value is None:
        raise BenchError("a run was too short to have a throughput")
    return value


def busiest_share(trace: Trace, warmup: int) -> tuple[str, float]:
    """The busiest lane (the host aside) and its busy share of the steady window: reckoned here from the slices alone."""
    window = steady_window(trace, warmup)
    shares: dict[str, float] = {}
    for lane in set(trace.lanes) - {"host"}:
        rows = trace.rows_on(lane)
        rows = rows[trace["kind"][rows] == KIND_OP]
        inside = np.minimum(trace["end_ns"][rows], window.end_ns) - np.maximum(trace["start_ns"][rows], window.start_ns)
        units = len({(span.lane, span.unit) for span in trace.units if span.lane == lane})
        shares[lane] = float(np.maximum(inside, 0).sum()) / (units * window.wall_ns)
    busiest = max(shares, key=lambda lane: shares[lane])
    return busiest, shares[busiest]
