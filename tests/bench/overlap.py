"""What overlap gains on the cpu device: the pipelined program against the synchronous one, both measured.

Ours is `prefetch` 4, the peer `prefetch` 0, everything else alike. Judged is bound efficiency: how busy the busiest lane of
the pipelined run was. At 1 nothing more could be won by overlapping.
"""

from statistics import median

from labkit.runner.job import Job
from labkit.runner.workers import Workers
from tests.bench.measure import Line, in_turns, median_interval, progress, ratio_of
from tests.bench.runs import busiest_share, items_per_s, outcome_of, pipeline_job

NAME = "overlap"
TARGET = 0.90
PREFETCH = 4


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, steps = (2, 15) if quick else (9, 60)
    shares: list[tuple[str, float]] = []
    jobs = {prefetch: pipeline_job(steps=steps, prefetch=prefetch) for prefetch in (0, PREFETCH)}
    with Workers() as workers:

        def turn(job: Job) -> float:
            trace = outcome_of(workers, job).trace
            if job.knobs.prefetch:
                shares.append(busiest_share(trace, job.budget.warmup))
            return items_per_s(trace, job.budget.warmup)

        contenders = {
            "pipelined": lambda: turn(jobs[PREFETCH]),
            "synchronous": lambda: turn(jobs[0]),
            "pipelined again": lambda: turn(jobs[PREFETCH]),
        }
        numbers = in_turns(contenders, rounds, progress)
    counted = shares[2:]  # the first two belong to the turns that are not counted
    efficiency = median(share for _, share in counted)
    speedup = ratio_of(numbers["pipelined"], numbers["synchronous"])
    low, high = median_interval([share for _, share in counted])
    lanes = sorted({lane for lane, _ in counted})
    print(f"  pipelined against synchronous: {speedup} times the images per second")
    print(f"  bound efficiency {efficiency:.3f} ({low:.3f} to {high:.3f}); busiest: {', '.join(lanes)}; target ≥ {TARGET:.2f}")
    return Line(
        name=NAME,
        ours=median(numbers["pipelined"]),
        peer=median(numbers["synchronous"]),
        unit="images/s",
        ratio=speedup.value,
        low=speedup.low,
        high=speedup.high,
        aa_ratio=ratio_of(numbers["pipelined"], numbers["pipelined again"]).value,
        rounds=rounds,
        passed=efficiency >= TARGET,
        bound=f"median bound efficiency of the pipelined run >= {TARGET:.2f}",
        details={"bound_efficiency": efficiency, "bound_efficiency_low": low, "bound_efficiency_high": high, "busiest": lanes},
    )
