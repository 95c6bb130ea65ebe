"""What watching costs: the throughput of a run that is watched in a browser on the same machine, over that of one that nobody watches.

Ours is a run of a live panel: Run is pressed on its page, the strip moves, figures are drawn. The peer is the same job on a warm worker of
this process, while the page stays open and idle. Both are counted from their traces by the same function.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import psutil

from labkit.experiments import experiment
from labkit.lab import recipe_of
from labkit.runner.job import Job
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from tests.bench.live_panel import LivePanel, notebook_page
from tests.bench.measure import BenchError, Line, Ratio, Turn, in_turns, progress, ratio_of, table
from tests.bench.runs import items_per_s, outcome_of

NAME = "watching"
TARGET = 0.90
LEAST_UPDATES_PER_S = 8.0
"""Of the median run; the strip's own target is ten."""
UNWATCHED_PER_S = 3.0
"""A run whose strip is drawn less often was not watched at all."""

ROLES = {
    "labkit.runner.worker": "worker",
    "ipykernel": "kernel",
    "jupyterlab": "server",
    "run-driver": "driver of the browser",
    "--type=renderer": "page",
}
"""A sign in a process's command line → what it is there for. Only the driver would not be there without the benchmark."""

CELL = """import labkit
panel = labkit.Panel("pipeline", device="cpu")
panel.session.run_for({seconds})
panel"""


@dataclass(frozen=True)
class Plan:
    """How long a run is measured, and how many rounds there are of the default setting and of prefetch 0."""

    seconds: float
    rounds: int
    synchronous_rounds: int


FULL, QUICK = Plan(12.0, 7, 3), Plan(1.0, 1, 0)
"""A run that is looked at lasts: in one of a few seconds the figures that are drawn once would be most of the cost."""


@dataclass(frozen=True)
class Cost:
    """One watched run: pictures of the strip a second, and who kept how many cores busy from Run to rest."""

    updates_per_s: float
    cores: Mapping[str, float]


@dataclass
class Setting:
    """One setting of the panel, in turns: watched, and not."""

    panel: LivePanel
    workers: Workers
    job: Job
    costs: list[Cost] = field(default_factory=list)

    def contenders(self) -> dict[str, Turn]:
        """Who takes turns; the last is there for the A/A ratio."""
        return {"watched": self.watched, "not watched": self.alone, "not watched again": self.alone}

    def watched(self) -> float:
        """Images per second of a run that is watched. Raises BenchError where the strip did not move."""
        self.panel.until_quiet()
        watch = CoreWatch(self.panel)
        seen = self.panel.run()
        cost = Cost(seen.updates_per_s, watch.cores())
        if cost.updates_per_s < UNWATCHED_PER_S:
            raise BenchError(f"the strip was drawn {cost.updates_per_s:.1f} times a second: nobody watched that run; is the machine busy?")
        self.costs.append(cost)
        stored = self.panel.last_run()
        if stored.record.key != self.job.key:
            raise BenchError(f"the panel ran another setting than the benchmark: {stored.record.knobs}")
        return items_per_s(stored.trace, self.job.budget.warmup)

    def alone(self) -> float:
        """Images per second of the same job in a worker of this process; the page is open and idle."""
        self.panel.until_quiet()
        return items_per_s(outcome_of(self.workers, self.job).trace, self.job.budget.warmup)


class CoreWatch:
    """Who keeps how many cores busy, from now on: the panel's own processes and its browser's, by role."""

    def __init__(self, panel: LivePanel):
        self._processes = [(role_of(process), process) for process in panel.processes()]
        self._before_s = self._used_s()
        self._began_s = perf_counter()

    def cores(self) -> dict[str, float]:
        """CPU seconds ÷ seconds, so far."""
        wall_s = perf_counter() - self._began_s
        return {role: (used_s - self._before_s[role]) / wall_s for role, used_s in self._used_s().items()}

    def _used_s(self) -> dict[str, float]:
        used_s: dict[str, float] = {}
        for role, process in self._processes:
            times = process.cpu_times()
            used_s[role] = used_s.get(role, 0.0) + times.user + times.system
        return used_s


def role_of(process: psutil.Process) -> str:
    """What a process of the panel is there for."""
    words = " ".join(process.cmdline())
    return next((role for sign, role in ROLES.items() if sign in words), "browser besides the page")


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    plan = QUICK if quick else FULL
    with notebook_page() as page, Workers() as workers:
        panel = LivePanel(page, "watching.ipynb", CELL.format(seconds=plan.seconds))
        ahead = Setting(panel, workers, timed_job(plan.seconds))
        numbers = in_turns(ahead.contenders(), plan.rounds, progress)
        synchronous = Setting(panel, workers, timed_job(plan.seconds, prefetch=0))
        others: dict[str, list[float]] = {}
        if plan.synchronous_rounds:
            panel.panel.fill("prefetch as a number", 0)
            others = in_turns(synchronous.contenders(), plan.synchronous_rounds, progress)
        panel.close()
    print(f"  watched against not watched: {_ratio(numbers)} of the throughput; target ≥ {TARGET:.2f}")
    if others:
        print(f"  the same with prefetch 0: {_ratio(others)}; not watched against itself {_aa(others):.3f}")
    counted = ahead.costs[1:]  # the first belongs to the turn that is not counted
    print(_cost_table(counted))
    return _line(numbers, others, counted, plan)


def timed_job(seconds: float, *, live: bool = False, **knobs: object) -> Job:
    """The job that the panel runs when Run is pressed."""
    catalogued = experiment("pipeline")
    return Job(recipe_of(catalogued), catalogued.knobs.parse(knobs), "cpu", Budget(seconds=seconds), live=live)


def _line(numbers: dict[str, list[float]], others: dict[str, list[float]], costs: list[Cost], plan: Plan) -> Line:
    ratio, updates_per_s = _ratio(numbers), median(cost.updates_per_s for cost in costs)
    details = {
        "updates_per_s": updates_per_s,
        "cores_while_watched": _median_cores(costs),
        "seconds": plan.seconds,
    }
    if others:
        slow = _ratio(others)
        details["prefetch 0"] = {"ratio": slow.value, "low": slow.low, "high": slow.high, "aa_ratio": _aa(others)}
    return Line(
        name=NAME,
        ours=median(numbers["watched"]),
        peer=median(numbers["not watched"]),
        unit="images/s",
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        aa_ratio=_aa(numbers),
        rounds=plan.rounds,
        passed=ratio.value >= TARGET and updates_per_s >= LEAST_UPDATES_PER_S,
        bound=f"median of watched over not watched >= {TARGET:.2f}, with >= {LEAST_UPDATES_PER_S:.0f} pictures of the strip a second",
        details=details,
    )


def _ratio(numbers: dict[str, list[float]]) -> Ratio:
    return ratio_of(numbers["watched"], numbers["not watched"])


def _aa(numbers: dict[str, list[float]]) -> float:
    return ratio_of(numbers["not watched"], numbers["not watched again"]).value


def _median_cores(costs: list[Cost]) -> dict[str, float]:
    return {role: round(median(cost.cores[role] for cost in costs), 3) for role in costs[0].cores}


def _cost_table(costs: list[Cost]) -> str:
    rows = [[role, f"{cores:.2f}"] for role, cores in _median_cores(costs).items()]
    words = f"  the strip was drawn {median(cost.updates_per_s for cost in costs):.1f} times a second; from Run to rest, busy cores:"
    return f"{words}\n{table(['of the', 'cores'], rows)}"
