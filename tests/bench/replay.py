"""A measured trace, replayed with its own durations, reproduces its makespan: exactly on the simulated device, closely on the cpu.

Three programs whose host does different things: synchronous (prefetch 0), loaded by the host itself (inline), and four batches
ahead. Judged is the replay from durations alone; the one that adds the recorded lags is shown. A run takes place twice a
round, so that the A/A ratio says how far two runs of the same program lie apart anyway.
"""

from collections.abc import Mapping
from statistics import median

from labkit.device.simulated import SimulatedDevice
from labkit.metrics.replay import compile_replay, replay
from labkit.runner.job import Job
from labkit.runner.workers import Workers
from labkit.trace import Trace
from tests.bench.light import LightKnobs, light_run
from tests.bench.measure import Line, Turn, in_turns, median_interval, progress, ratio_of, table
from tests.bench.runs import outcome_of, pipeline_job
from tests.bench.schedules import machine_for

NAME = "replay"
TARGET = 0.05
PROGRAMS: Mapping[str, Mapping[str, object]] = {
    "synchronous": {"prefetch": 0},
    "inline loader": {"prefetch": 0, "loader": "inline"},
    "prefetch 4": {"prefetch": 4},
}


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, steps = (2, 15) if quick else (7, 40)
    ratios: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with_lags: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with Workers() as workers:

        def turn(name: str, job: Job) -> float:
            trace = outcome_of(workers, job).trace
            program = compile_replay(trace)
            ratios[name].append(replay(program).makespan_ns / trace.makespan_ns)
            with_lags[name].append(replay(program, lags=True).makespan_ns / trace.makespan_ns)
            return float(trace.makespan_ns)

        jobs = {name: pipeline_job(steps=steps, warmup=0, **knobs) for name, knobs in PROGRAMS.items()}
        turns: dict[str, Turn] = {}
        for name, job in jobs.items():
            turns[name] = turns[name + " again"] = lambda name=name, job=job: turn(name, job)
        makespans = in_turns(turns, rounds, progress)
    counted = {name: values[2:] for name, values in ratios.items()}  # the first two are the turns that are not counted
    errors = {name: median(abs(ratio - 1) for ratio in values) for name, values in counted.items()}
    exact = {name: simulated_differences(knobs) for name, knobs in _light_programs().items()}
    rows = [
        [name, f"{median(counted[name]):.4f}", f"{100 * errors[name]:.2f} %", f"{median(with_lags[name][2:]):.4f}"]
        for name in PROGRAMS
    ]
    print(table(["program", "replayed ÷ measured", "error", "with lags"], rows))
    print(f"  target ≤ {100 * TARGET:.0f} % each; on the simulated device {sum(exact.values())} ends differ, target 0")
    everything = [ratio for values in counted.values() for ratio in values]
    low, high = median_interval(everything)
    aa = [ratio_of(makespans[name], makespans[name + " again"]).value for name in PROGRAMS]
    return Line(
        name=NAME,
        ours=max(errors.values()),
        peer=None,
        unit="share of the makespan",
        ratio=median(everything),
        low=low,
        high=high,
        aa_ratio=median(aa),
        rounds=rounds,
        passed=max(errors.values()) <= TARGET and not any(exact.values()),
        bound=f"median |replayed ÷ measured - 1| <= {TARGET} for each of {', '.join(PROGRAMS)} on the cpu; exact on the simulated device",
        details={"errors": errors, "simulated_differences": exact, "with_lags": {n: median(v[2:]) for n, v in with_lags.items()}},
    )


def simulated_differences(knobs: LightKnobs, steps: int = 200) -> int:
    """How many rows of a simulated run end at another instant when it is replayed; overheads are lags."""
    device = SimulatedDevice(machine_for(wake_ns=5_000, dispatch_ns=3_000), widths={"workers": 2})
    light_run(device, steps, knobs)
    device.close()
    return differences(device.recorder.finish(device.now()))


def differences(trace: Trace) -> int:
    """How many rows start or end at another instant in the replay with its recorded lags."""
    again = replay(compile_replay(trace), lags=True)
    return int(((again.end_ns != trace["end_ns"]) | (again.start_ns != trace["start_ns"])).sum())


def _light_programs() -> dict[str, LightKnobs]:
    return {
        "synchronous": LightKnobs(prefetch=0, log_sync=True),
        "inline loader": LightKnobs(prefetch=0, inline=True),
        "prefetch 4": LightKnobs(prefetch=4),
    }
