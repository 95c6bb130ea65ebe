"""Stalls: every nanosecond of every lane unit is busy, or idle for a stated cause. Together they are all.

An idle gap before an op is split. Up to the instant at which its last dependency had ended and the host had
submitted it, the gap is charged to the one of the two that came last: the dependency, or what the host was
doing. An op that the host launched late is charged to the host from there to its launch. The rest, from ready
to running, is dispatch.

The host's waits are its stalls, charged to the op that ended them. Ops that run inline, launches, and the
time between two verbs (the kernel's own program) are busy time of the host.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labkit.metrics.cause import DISPATCH, END, START, Cause
from labkit.metrics.chain import Chain
from labkit.metrics.host_timeline import DEADLINE, HostTimeline
from labkit.metrics.unit_slices import HOST, UnitSlices, slices_by_unit
from labkit.trace import KIND_LAUNCH, KIND_WAIT, Trace


class Stall(NamedTuple):
    """One idle piece of a unit's time."""

    start_ns: int
    end_ns: int
    cause: Cause


@dataclass(frozen=True)
class LaneAccount:
    """One unit of a lane while it existed: `busy_ns` and the stalls make `span_ns`."""

    lane: str
    unit: int
    span_ns: int
    busy_ns: int
    stalls: tuple[Stall, ...]
    open_ns: int = 0

    def span_within(self, start_ns: int, end_ns: int) -> int:
        """How much of the unit's time lies between two instants."""
        return max(min(self.open_ns + self.span_ns, end_ns) - max(self.open_ns, start_ns), 0)

    def stalled_within(self, start_ns: int, end_ns: int) -> dict[Cause, int]:
        """Its idle time between two instants, by cause."""
        by_cause: dict[Cause, int] = {}
        for begin, end, cause in self.stalls:
            if end > start_ns and begin < end_ns:
                ns = min(end, end_ns) - max(begin, start_ns)
                by_cause[cause] = by_cause.get(cause, 0) + ns
        return by_cause


def account(trace: Trace, units: list[UnitSlices] | None = None) -> tuple[LaneAccount, ...]:
    """The account of every unit span of every lane, the host's included.

    units  `slices_by_unit(trace)`, where the caller has it
    Raises TraceError where slices of one unit overlap or lie outside its time.
    """
    units = slices_by_unit(trace) if units is None else units
    run = _Run(trace, units)
    return tuple(_accounted(unit.span.lane, unit, tuple(run.stalls_of(unit))) for unit in units)


def _accounted(lane: str, unit: UnitSlices, stalls: tuple[Stall, ...]) -> LaneAccount:
    span = unit.span
    whole = span.close_ns - span.open_ns
    idle = sum(end - start for start, end, _ in stalls)
    return LaneAccount(lane, span.unit, whole, whole - idle, stalls, span.open_ns)


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


def waits_by_cause(
    accounts: tuple[LaneAccount, ...], start_ns: int, end_ns: int
) -> dict[str, dict[Cause, float]]:
    """For each lane: the share of its units' time between two instants that each cause took."""
    spans: dict[str, int] = {}
    for unit in accounts:
        spans[unit.lane] = spans.get(unit.lane, 0) + unit.span_within(start_ns, end_ns)
    idle = waits_ns(accounts, start_ns, end_ns)
    return {lane: {cause: ns / spans[lane] for cause, ns in causes.items()} for lane, causes in idle.items()}


def waits_ns(accounts: tuple[LaneAccount, ...], start_ns: int, end_ns: int) -> dict[str, dict[Cause, int]]:
    """For each lane: the idle time of its units between two instants, by cause."""
    idle: dict[str, dict[Cause, int]] = {}
    for unit in accounts:
        causes = idle.setdefault(unit.lane, {})
        for cause, ns in unit.stalled_within(start_ns, end_ns).items():
            causes[cause] = causes.get(cause, 0) + ns
    return idle


def in_words(causes: Mapping[Cause, float]) -> dict[str, float]:
    """The shares of causes by their words, the largest first."""
    shares: dict[str, float] = {}
    for cause, share in causes.items():
        shares[cause.text] = shares.get(cause.text, 0.0) + share
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))
