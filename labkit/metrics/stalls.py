"""Stalls: every nanosecond of every lane unit is busy, or idle for a stated cause. Together they are all.

An idle gap before an op is split. Up to the instant at which its last dependency had ended and the host had
submitted it, the gap is charged to the one of the two that came last: the dependency, or what the host was
doing. An op that the host launched late is charged to the host from there to its launch. The rest, from ready
to running, is dispatch.

The host's waits are its stalls, charged to the op that ended them. Ops that run inline, launches, and the
time between two verbs (the kernel's own program) are busy time of the host.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labkit.metrics.cause import Cause
from labkit.metrics.gaps import Gaps
from labkit.metrics.unit_slices import UnitSlices, slices_by_unit
from labkit.trace import Trace


class Stall(NamedTuple):
    """One idle piece of a unit's time."""

    start_ns: int
    end_ns: int
    cause: Cause


@dataclass(frozen=True, eq=False)
class LaneAccount:
    """One unit of a lane while it existed: `busy_ns` and the stalls make `span_ns`.

    begins, ends, codes  the stalls as columns, in order of time; a code is a place in `causes`
    """

    lane: str
    unit: int
    span_ns: int
    busy_ns: int
    open_ns: int
    begins: np.ndarray
    ends: np.ndarray
    codes: np.ndarray
    causes: tuple[Cause, ...]

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """Its idle pieces, one by one."""
        columns = zip(self.begins.tolist(), self.ends.tolist(), self.codes.tolist(), strict=True)
        return tuple(Stall(begin, end, self.causes[code]) for begin, end, code in columns)

    def span_within(self, start_ns: int, end_ns: int) -> int:
        """How much of the unit's time lies between two instants."""
        return max(min(self.open_ns + self.span_ns, end_ns) - max(self.open_ns, start_ns), 0)

    def stalled_within(self, start_ns: int, end_ns: int) -> dict[Cause, int]:
        """Its idle time between two instants, by cause."""
        inside = np.flatnonzero((self.ends > start_ns) & (self.begins < end_ns))
        by_code = np.zeros(len(self.causes), np.int64)
        np.add.at(by_code, self.codes[inside], np.minimum(self.ends[inside], end_ns) - np.maximum(self.begins[inside], start_ns))
        return {self.causes[code]: int(by_code[code]) for code in np.flatnonzero(by_code)}


def account(trace: Trace, units: list[UnitSlices] | None = None) -> tuple[LaneAccount, ...]:
    """The account of every unit span of every lane, the host's included.

    units  `slices_by_unit(trace)`, where the caller has it
    Raises TraceError where slices of one unit overlap or lie outside its time.
    """
    units = slices_by_unit(trace) if units is None else units
    gaps = Gaps(trace, units)
    found = []
    for unit, (begins, ends, codes) in zip(units, gaps.of_unit, strict=True):
        span, whole = unit.span, unit.span.close_ns - unit.span.open_ns
        known, places = np.unique(codes, return_inverse=True)
        causes = tuple(map(gaps.cause, known.tolist()))
        found.append(LaneAccount(span.lane, span.unit, whole, whole - int((ends - begins).sum()), span.open_ns, begins, ends, places, causes))
    return tuple(found)


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
