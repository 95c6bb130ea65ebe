"""The host's CPU and memory: what this process tree takes, and what is left on the machine.

A share is a difference of two CPU times over the time between them, so the clock starts when the sensor is opened and
the first reading already has a value. (psutil's own `cpu_percent` gives 0.0 the first time in every thread.)
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

from labkit.device.cores import available_cores
from labkit.monitor.process_tree import ProcessTree
from labkit.monitor.sensors import Reading

CGROUP = Path("/sys/fs/cgroup")
SHORTEST_S = 0.05
"""CPU times advance in ticks of 10 ms: over a shorter span a share would be mostly rounding."""

UNITS = {
    "process_cpu_share": "share of the cores that it may use",
    "machine_cpu_share": "share of all cores",
    "process_rss_bytes": "bytes",
    "memory_available_bytes": "bytes",
}


class HostSensor:
    """CPU and memory of a process tree and of its machine.

    process_cpu_share       of the tree: CPU time ÷ wall time ÷ cores that this process may use; what a new child
                            used before it was seen, up to a second or so, counts when it is seen
    machine_cpu_share       of everybody, over all cores of the machine, also those outside a container
    process_rss_bytes       resident memory of the tree; pages that processes share count once for each
    memory_available_bytes  what can still be had: the machine's, or what the container's limit leaves

    pid     root of the tree, this process where not given
    psutil  the module to ask, the installed one where not given
    """

    name = "host"

    def __init__(
        self, pid: int | None = None, psutil: ModuleType | None = None, clock: Callable[[], float] = perf_counter
    ):
        self._clock = clock
        self._cores = available_cores()
        self._shares: dict[str, float | str] = {}
        self._failure = ""
        self._psutil: Any = psutil
        try:
            if psutil is None:
                import psutil as installed

                self._psutil = installed
            self._tree = ProcessTree(self._psutil, os.getpid() if pid is None else pid, clock)
            self._before = self._cpu_seconds()
        except ImportError as error:
            self._failure = f"psutil cannot be imported: {error}"
        except Exception as error:  # psutil's errors have no name until it is imported
            self._failure = _words(error)

    def read(self) -> list[Reading]:
        """The four readings named above. Within 50 ms of the last reading, CPU shares are repeated."""
        if self._failure:
            return [Reading(name, None, unit, self._failure) for name, unit in UNITS.items()]
        self._update_shares()
        too_soon = f"less than {SHORTEST_S * 1000:.0f} ms have passed since the sensor was opened"
        return [
            *(_reading(name, self._shares.get(name, too_soon)) for name in ("process_cpu_share", "machine_cpu_share")),
            _reading("process_rss_bytes", self._try(self._rss_bytes)),
            _reading("memory_available_bytes", self._try(self._available_bytes)),
        ]

    def close(self) -> None:
        """Nothing is held."""

    def _update_shares(self) -> None:
        before = self._before
        if self._clock() - before[0] < SHORTEST_S:
            return
        now = self._try(self._cpu_seconds)
        if isinstance(now, str):
            self._shares = dict.fromkeys(("process_cpu_share", "machine_cpu_share"), now)
            return
        self._before = now
        wall_s, tree_s, busy_s, machine_s = (after - earlier for after, earlier in zip(now, before, strict=True))
        lost = "CPU time was lost with a child process that nobody waited for"
        stopped = "the machine's CPU times did not advance"
        self._shares = {
            "process_cpu_share": tree_s / wall_s / self._cores if tree_s >= 0 else lost,
            "machine_cpu_share": min(max(busy_s / machine_s, 0.0), 1.0) if machine_s > 0 else stopped,
        }

    def _cpu_seconds(self) -> tuple[float, float, float, float]:
        """The clock; CPU seconds of the tree, of everybody, and of all cores, idle included."""
        times = self._psutil.cpu_times()._asdict()
        total = sum(seconds for field, seconds in times.items() if not field.startswith("guest"))
        idle = times["idle"] + times.get("iowait", 0.0)
        return self._clock(), self._tree.cpu_s(), total - idle, total

    def _rss_bytes(self) -> float:
        return float(sum(self._tree.figures(lambda process: process.memory_info().rss)))

    def _available_bytes(self) -> float:
        machine = float(self._psutil.virtual_memory().available)
        left = _left_in_container()
        return machine if left is None else min(machine, left)

    def _try(self, measure: Callable[[], Any]) -> Any:
        try:
            return measure()
        except (self._psutil.Error, OSError) as error:
            return _words(error)


def _left_in_container() -> float | None:
    """What the container's memory limit leaves (cgroup v2; file pages that can be dropped are free). None: no limit."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return None if limit == "max" else max(float(int(limit) - used + int(stat.get("inactive_file", 0))), 0.0)
    except (OSError, ValueError):
        return None


def _reading(name: str, value: float | str) -> Reading:
    if isinstance(value, str):
        return Reading(name, None, UNITS[name], value)
    return Reading(name, value, UNITS[name])


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
