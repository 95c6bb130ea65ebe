"""Up the chain: what an op waited for, what that waited for, and which of them took the time.

A copy that takes a microsecond is the last dependency of the step that waits for it; the second before it
went into the decode that the copy waited for. Stalls name both.
"""

from labkit.metrics.dependencies import last_dependency
from labkit.metrics.host_timeline import HostTimeline
from labkit.metrics.unit_slices import UnitSlices
from labkit.trace import Trace


class Chain:
    """What came before each op: its last dependency or the op before it on its unit, the later to end."""

    def __init__(self, trace: Trace, units: list[UnitSlices], host: HostTimeline):
        self._trace = trace
        self._host = host
        self._start, self._end, self._queued = (
            trace[name].tolist() for name in ("start_ns", "end_ns", "queued_ns")
        )
        rows, ends = last_dependency(trace)
        self.dep_row, self.dep_end = rows.tolist(), ends.tolist()
        self._before = [-1] * len(trace)
        for unit in units:
            for earlier, later in zip(unit.rows[:-1].tolist(), unit.rows[1:].tolist(), strict=True):
                self._before[later] = earlier

    def longest_behind(self, since_ns: int, until_ns: int, row: int) -> tuple[str, str] | None:
        """From `row` up the chain: what took the longest of the time between two instants, as (op, lane).

        The chain ends at an op that was submitted after its predecessors had ended: before it, the host is
        what was waited for.
        """
        times: dict[tuple[str, str], int] = {}
        while row >= 0 and since_ns < until_ns and self._start[row] < until_ns:
            begin = max(self._start[row], since_ns)
            self._add(times, (self._trace.name_of(row), self._trace.lane_of(row)), until_ns - begin)
            until_ns = begin
            before, before_end = self._predecessor(row)
            if until_ns > since_ns and min(self._queued[row], self._start[row]) > before_end:
                self._add(times, self._host.mostly(since_ns, until_ns), until_ns - since_ns)
                break
            row = before
        return max(times, key=lambda key: times[key]) if times else None

    def _predecessor(self, row: int) -> tuple[int, int]:
        dep, before = self.dep_row[row], self._before[row]
        before_end = self._end[before] if before >= 0 else -1
        return (dep, self.dep_end[row]) if self.dep_end[row] >= before_end else (before, before_end)

    @staticmethod
    def _add(times: dict[tuple[str, str], int], key: tuple[str, str] | None, ns: int) -> None:
        if key is not None:
            times[key] = times.get(key, 0) + ns
