"""A process and what it has started: the figures of each of them, the tree found anew now and then.

`HostSensor` watches the tree of a worker, `Surroundings` that of the whole lab.
"""

import os
from collections.abc import Callable
from typing import Any

SCAN_EVERY_S = 1.0
SCAN_SHARE = 0.01
"""Finding the children reads every process of the machine: at most once a second, and 1 % of the time."""


class ProcessTree:
    """The tree below `pid`. psutil's errors are raised where the root cannot be asked.

    psutil  the module to ask
    clock   seconds, for when the children are looked for again
    """

    def __init__(self, psutil: Any, pid: int, clock: Callable[[], float]):
        self._psutil = psutil
        self._clock = clock
        self._root = psutil.Process(pid)
        self._children: list[Any] = []
        self._scan_due_s = float("-inf")

    def figures(self, measure: Callable[[Any], float]) -> list[float]:
        """One figure of each process in the tree. A child that ends meanwhile is passed over; the root must be there."""
        figures = [measure(self._root)]
        for child in self._found_children():
            try:
                figures.append(measure(child))
            except (self._psutil.NoSuchProcess, self._psutil.AccessDenied):
                continue
        return figures

    def cpu_s(self) -> float:
        """CPU seconds that the tree has taken, with the children that it has waited for."""
        return sum(self.figures(_seconds_of))

    def look_again(self) -> None:
        """Look for the children at the next question, however short the time since the last."""
        self._scan_due_s = float("-inf")

    def _found_children(self) -> list[Any]:
        before_s = self._clock()
        if before_s >= self._scan_due_s:
            self._children = self._root.children(recursive=True)
            after_s = self._clock()
            self._scan_due_s = after_s + max(SCAN_EVERY_S, (after_s - before_s) / SCAN_SHARE)
        return self._children


def _seconds_of(process: Any) -> float:
    """CPU seconds of a process and of the children that it has waited for."""
    times = process.cpu_times()
    waited_for = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return times.user + times.system + waited_for


def family_pids() -> set[int]:
    """This process, the one that started it, and all that these have started: of a worker, the whole lab. Empty without psutil."""
    try:
        import psutil
    except ImportError:
        return set()
    family = {os.getpid(), os.getppid()}
    for pid in tuple(family):
        try:
            family |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        except psutil.Error:
            continue  # it has ended, or may not be asked
    return family
