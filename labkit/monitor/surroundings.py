"""What goes on around a run: other processes, a CPU quota, the clocks. Read by the process that asked for the run, not by the one that is
measured, and at most twice a second.

All but the clocks are counters, so the reading at the start and the one at the end say all there is to know. `labkit.metrics.circumstances`
says what it means for the run's verdict.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

from labkit.device.cores import available_cores
from labkit.monitor.clocks import NO_CLOCKS, clock_share, usable_cpus
from labkit.monitor.process_tree import ProcessTree
from labkit.monitor.quota import NO_COUNTERS, NO_QUOTA, QuotaCounts, held_back_share, quota_files, read_quota

LOOK_EVERY_S = 0.5
SHORTEST_S = 0.5
"""CPU times advance in ticks of 10 ms: over less time others' share would be mostly rounding."""

UNITS = {
    "others_cpu_share": "share of the cores that it may use",
    "stolen_cpu_share": "share of the cores that it may use",
    "quota_held_share": "share of the quota's periods",
    "cpu_clock_share": "share of the highest clock",
    "usable_cores": "cores",
}


@dataclass(frozen=True, slots=True)
class _Counters:
    """CPU seconds of the cores that this process may use: of everybody, of other guests of the machine's host, of the own tree."""

    time_s: float
    busy_s: float
    stolen_s: float
    own_s: float
    quota: list[QuotaCounts]


@dataclass(slots=True)
class _Seen:
    """One value, or why there is none."""

    value: float | None
    reason: str | None = None
    n: int = 1


@dataclass(slots=True)
class _Clocks:
    """Readings of the clock's share so far."""

    n: int = 0
    total: float = 0.0

    def take(self, share: float | None) -> None:
        if share is not None:
            self.n, self.total = self.n + 1, self.total + share


class Surroundings:
    """Watches from `begin` until `summary` is asked for.

    others_cpu_share  of the cores that this process may use: what processes kept busy that neither it nor its children are
    stolen_cpu_share  of them: what the host of a virtual machine gave to other guests
    quota_held_share  periods of a CPU quota in which the processes were held back ÷ periods in which they ran
    cpu_clock_share   clock of the fastest core ÷ its highest, on average
    usable_cores      what affinity and quota leave

    pid     root of the tree that counts as one's own, this process where not given
    psutil  the module to ask, the installed one where not given
    """

    def __init__(self, pid: int | None = None, psutil: ModuleType | None = None, clock: Callable[[], float] = perf_counter):
        self._clock = clock
        self._cpus = usable_cpus()
        self._files: list[Path] = quota_files()
        self._psutil: Any = psutil
        self._tree: ProcessTree | None = None
        self._failure = ""
        try:
            if psutil is None:
                import psutil as installed

                self._psutil = installed
            self._tree = ProcessTree(self._psutil, os.getpid() if pid is None else pid, clock)
        except ImportError as error:
            self._failure = f"psutil cannot be imported: {error}"
        except Exception as error:  # psutil's errors have no name until it is imported
            self._failure = f"{type(error).__name__}: {error}"
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._clocks = _Clocks()
        self._looked_s = self._clock()
        self._before = self._counters()

    def look(self) -> None:
        """Read the clocks, if the last look is half a second ago. Cheap: it may be called as often as one likes."""
        now_s = self._clock()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._clocks.take(clock_share(self._cpus))

    def summary(self) -> dict[str, dict[str, Any]]:
        """What was seen since `begin`, of each reading as `Sampler.summary` gives it."""
        seen = self._shares(self._before, self._counters())
        mean = self._clocks.total / self._clocks.n if self._clocks.n else None
        no_clock = NO_CLOCKS if clock_share(self._cpus) is None else "the run was too short to read the clocks"
        seen["cpu_clock_share"] = _Seen(mean, None if mean is not None else no_clock, self._clocks.n)
        seen["usable_cores"] = _Seen(float(available_cores()))
        return {name: _as_dict(UNITS[name], each) for name, each in seen.items()}

    def _shares(self, before: _Counters | str, after: _Counters | str) -> dict[str, _Seen]:
        """Of the cores and of the quota, between two readings."""
        failure = next((each for each in (before, after) if isinstance(each, str)), None)
        if isinstance(before, str) or isinstance(after, str):
            return {name: _Seen(None, failure, 0) for name in ("others_cpu_share", "stolen_cpu_share", "quota_held_share")}
        wall_s = after.time_s - before.time_s
        cores_s = wall_s * len(self._cpus)
        own_s, stolen_s = after.own_s - before.own_s, after.stolen_s - before.stolen_s
        others_s = after.busy_s - before.busy_s - stolen_s - own_s
        held = held_back_share(before.quota, after.quota)
        seen = {
            "others_cpu_share": _share(others_s, cores_s),
            "stolen_cpu_share": _share(stolen_s, cores_s),
            "quota_held_share": _Seen(held, None if held is not None else NO_QUOTA if self._files else NO_COUNTERS),
        }
        if own_s < 0:
            seen["others_cpu_share"] = _Seen(None, "CPU time was lost with a child process that nobody waited for", 0)
        if wall_s < SHORTEST_S:
            short = f"the run was watched for {wall_s:.2g} s; {SHORTEST_S} s are needed to tell"
            seen |= {name: _Seen(None, short, 0) for name in ("others_cpu_share", "stolen_cpu_share")}
        return seen

    def _counters(self) -> _Counters | str:
        """The counters now, or why they cannot be read."""
        if self._failure or self._tree is None:
            return self._failure
        try:
            self._tree.look_again()
            times = self._psutil.cpu_times(percpu=True)
            mine = [times[cpu]._asdict() for cpu in self._cpus if cpu < len(times)]
            busy_s = sum(_busy_s(core) for core in mine)
            stolen_s = sum(core.get("steal", 0.0) for core in mine)
            return _Counters(self._clock(), busy_s, stolen_s, self._tree.cpu_s(), read_quota(self._files))
        except (self._psutil.Error, OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"


def _busy_s(core: dict[str, float]) -> float:
    """CPU seconds of one core that it was not idle; a guest's time is in the user's already."""
    idle = ("idle", "iowait")
    return sum(seconds for name, seconds in core.items() if name not in idle and not name.startswith("guest"))


def _share(seconds: float, of_s: float) -> _Seen:
    return _Seen(min(max(seconds / of_s, 0.0), 1.0) if of_s > 0 else None, None if of_s > 0 else "no time has passed")


def _as_dict(unit: str, seen: _Seen) -> dict[str, Any]:
    value = seen.value
    n = 0 if value is None else seen.n
    return {"unit": unit, "n": n, "min": value, "mean": value, "max": value, "last": value, "reason": seen.reason}
