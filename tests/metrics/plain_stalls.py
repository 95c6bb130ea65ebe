"""The account of stalls once more, a gap at a time: slow and plain, and what the fast one must agree with to the nanosecond."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from labkit.metrics.cause import DISPATCH, END, START, Cause
from labkit.metrics.dependencies import last_dependency
from labkit.metrics.host_timeline import DEADLINE, LAUNCHING, program_of
from labkit.metrics.stalls import Stall
from labkit.metrics.unit_slices import HOST, UnitSlices, slices_by_unit
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex


def plain_stalls(trace: Trace) -> list[tuple[Stall, ...]]:
    """The stalls of every unit, as `account` has them."""
    units = slices_by_unit(trace)
    run = _Run(trace, units)
    return [tuple(run.stalls_of(unit)) for unit in units]


class _Run:
    """The columns of a trace as lists, and what gaps are charged with."""

    def __init__(self, trace: Trace, units: list[UnitSlices]):
        self.trace = trace
        self.host = HostTimeline(trace)
        self.start, self.end = trace["start_ns"].tolist(), trace["end_ns"].tolist()
        self.submit, self.queued = trace["submit_ns"].tolist(), trace["queued_ns"].tolist()
        self.chain = Chain(trace, units, self.host)
        self.dep_row, self.dep_end = self.chain.dep_row, self.chain.dep_end
        launches = np.flatnonzero(trace["kind"] == KIND_LAUNCH)
        self.launches = launches[np.argsort(trace["start_ns"][launches], kind="stable")].tolist()
        self.launched = {int(dep): self.end[row] for row in self.launches for dep in trace.deps(row)}
        self.op = trace["op"].tolist()
        self.waits = (trace["kind"] == KIND_WAIT).tolist()

    def stalls_of(self, unit: UnitSlices) -> Iterator[Stall]:
        if unit.span.lane == HOST:
            return self._without_launches(self._host_stalls(unit))
        return self._lane_stalls(unit)

    # ---- lanes --------------------------------------------------------------------------------------------

    def _lane_stalls(self, unit: UnitSlices) -> Iterator[Stall]:
        free = unit.span.open_ns
        for row in unit.rows.tolist():
            if self.start[row] > free:
                yield from self._gap(free, row)
            free = self.end[row]
        if unit.span.close_ns > free:
            yield Stall(free, unit.span.close_ns, END)

    def _gap(self, free: int, row: int) -> Iterator[Stall]:
        """The pieces of the gap that ends with the start of the op in `row`."""
        start = self.start[row]
        queued, dep_end = min(self.queued[row], start), min(self.dep_end[row], start)
        ready = max(queued, dep_end)
        if ready > free:
            last = self._on_dep(free, ready, row) if dep_end > queued else self._on_host(free, ready)
            yield Stall(free, ready, last)
            free = ready
        launched = min(self.launched.get(self.op[row], 0), start)
        if launched > free:
            yield Stall(free, launched, self._on_host(free, launched))
            free = launched
        if start > free:
            yield Stall(free, start, DISPATCH)

    def _on_host(self, since: int, until: int) -> Cause:
        doing = self.host.mostly(since, until)
        return START if doing is None else Cause("host", doing.op, doing.lane)

    def _on_dep(self, since: int, until: int, row: int) -> Cause:
        dep = self.dep_row[row]
        behind = self.chain.longest_behind(since, until, dep)
        name, lane = self.trace.name_of(dep), self.trace.lane_of(dep)
        return Cause("dependency", name, lane, *(behind or (name, lane)))

    # ---- the host -----------------------------------------------------------------------------------------

    def _host_stalls(self, unit: UnitSlices) -> Iterator[Stall]:
        opened, closed = unit.span.open_ns, unit.span.close_ns
        if self.host.first_ns is None or self.host.last_ns is None:
            yield from [Stall(opened, closed, END)] if closed > opened else []
            return
        if self.host.first_ns > opened:
            yield Stall(opened, min(self.host.first_ns, closed), START)
        free = opened
        for row in unit.rows.tolist():
            if self.waits[row]:
                if self.end[row] > self.start[row]:
                    yield Stall(self.start[row], self.end[row], self._host_cause(row))
            else:
                since, until = max(free, self.submit[row]), min(self.dep_end[row], self.start[row])
                if until > since:
                    yield Stall(since, until, self._on_dep(since, until, row))
            free = self.end[row]
        if closed > self.host.last_ns:
            yield Stall(max(self.host.last_ns, opened), closed, END)

    def _host_cause(self, row: int) -> Cause:
        awaited = self.host.of_row(row)
        if awaited.op == DEADLINE:
            return Cause("deadline")
        return Cause("dependency", awaited.op, awaited.lane, awaited.op, awaited.lane)

    def _without_launches(self, stalls: Iterator[Stall]) -> Iterator[Stall]:
        """The host's stalls less the launches that it made amid them. Both are in order of time."""
        launches = iter(self.launches)
        launch = next(launches, None)
        for start, end, cause in stalls:
            while launch is not None and self.start[launch] < end:
                if self.end[launch] > start:
                    if self.start[launch] > start:
                        yield Stall(start, self.start[launch], cause)
                    start = min(self.end[launch], end)
                if self.end[launch] > end:
                    break
                launch = next(launches, None)
            if end > start:
                yield Stall(start, end, cause)


class Doing(NamedTuple):
    """What the host was doing: `op` names the op that it ran or waited for, or says what else it did.

    lane  where that op ran: `host` for what the host did itself, empty where nobody knows
    """

    op: str
    lane: str = HOST


class HostTimeline:
    """The host's verbs in order of time."""

    def __init__(self, trace: Trace):
        self._trace = trace
        kind = trace["kind"]
        on_host = np.array([lane == HOST for lane in trace.lanes], bool)[trace["lane"]]
        slices = on_host & (trace["start_ns"] >= 0) & (kind != KIND_LAUNCH)
        start = np.where(slices, trace["start_ns"], trace["submit_ns"])
        end = np.where(slices, trace["end_ns"], trace["queued_ns"])
        order = np.lexsort((end, start))
        inside = np.zeros(len(order), bool)
        inside[1:] = end[order][1:] <= np.maximum.accumulate(end[order])[:-1]
        order = order[~(inside & (kind[order] == KIND_LAUNCH))]
        self._doing: dict[int, Doing] = {}
        self._rows = order.tolist()
        self._start = start[order].tolist()
        self._end = end[order].tolist()
        self._wakers = RowIndex(trace).rows(trace["woke_by"]).tolist()
        self.first_ns = int(trace["submit_ns"].min()) if len(end) else None
        self.last_ns = int(end.max()) if len(end) else None

    def of_row(self, row: int) -> Doing:
        """What a host row is: a wait (for whom), an inline op, or a launch."""
        known = self._doing.get(row)
        if known is None:
            known = self._doing[row] = self._find(row)
        return known

    def mostly(self, since_ns: int, until_ns: int) -> Doing | None:
        """What the host did for the longest time between two instants; None: its program had not begun."""
        times: dict[Doing | None, int] = {}
        at = since_ns
        if self.first_ns is None or self.first_ns > since_ns:
            at = until_ns if self.first_ns is None else min(self.first_ns, until_ns)
            times[None] = at - since_ns
        place = max(bisect_right(self._start, at) - 1, 0)
        while at < until_ns and place < len(self._rows) and self._start[place] < until_ns:
            begin, end = max(self._start[place], at), min(self._end[place], until_ns)
            if end > begin:
                _add(times, Doing(program_of(self._trace)), begin - at)
                _add(times, self.of_row(self._rows[place]), end - begin)
                at = end
            place += 1
        _add(times, Doing(program_of(self._trace)), until_ns - at)
        return max(times, key=lambda doing: times[doing])

    def _find(self, row: int) -> Doing:
        trace = self._trace
        if trace["kind"][row] == KIND_WAIT:
            return self._awaited(row)
        if trace["kind"][row] == KIND_OP and trace.lane_of(row) == HOST and trace["start_ns"][row] >= 0:
            return Doing(trace.name_of(row))
        return Doing(LAUNCHING)

    def _awaited(self, row: int) -> Doing:
        waker = self._wakers[row]
        if waker >= 0:
            return Doing(self._trace.name_of(waker), self._trace.lane_of(waker))
        woke_by = int(self._trace["woke_by"][row])
        return Doing(DEADLINE, "") if woke_by < 0 else Doing(f"op {woke_by}, not kept", "")


def _add(times: dict[Doing | None, int], doing: Doing, ns: int) -> None:
    if ns > 0:
        times[doing] = times.get(doing, 0) + ns


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
