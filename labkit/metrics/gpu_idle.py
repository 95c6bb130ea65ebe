"""Why each stream of a GPU was idle, what the GPU as a whole did with its time, and how much of its communication ran beside computation.

The reasons go by what Holistic Trace Analysis asks (`get_idle_time_breakdown`, `get_comm_comp_overlap`; MIT licence), and rest on the
causes that `stalls.account` gives to every idle nanosecond. A gap is split here: what came before the launch is the host's, what came
after it is not. HTA charges a whole gap to one reason. What a stream waited for where the file names no dependency stays "unexplained".
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from labkit.metrics.cause import Cause
from labkit.metrics.metric import Metric
from labkit.metrics.overlap import role_of
from labkit.metrics.stalls import LaneAccount, account
from labkit.metrics.unit_slices import UnitSlices, slices_by_unit
from labkit.trace import KIND_OP, Trace

Reason = Literal["host-bound", "device-bound", "launch gap", "unexplained"]
REASONS: tuple[Reason, ...] = ("host-bound", "device-bound", "launch gap", "unexplained")

LAUNCH_GAP_NS = 30_000
"""From ready to running within this time is what a launch takes (HTA's `consecutive_kernel_delay`); longer has a reason not in the file."""

DEVICE_ROLES = ("compute", "h2d", "d2h", "net")
COMMUNICATION = ("nccl", "rccl", "oneccl", "msccl")
COPIES = ("memcpy", "memset")

_BESIDE = "time with communication and computation at once ÷ time with communication"


@dataclass(frozen=True)
class StreamIdle:
    """One stream from its first op to its last: `busy_ns` and the idle times make `span_ns`.

    busy_ns  time with at least one op running
    idle_ns  reason → ns: host-bound: not launched yet; device-bound: an op it depends on had not ended; launch gap: from
             ready to running, short; unexplained: the same, and too long for a launch
    """

    lane: str
    ops: int
    span_ns: int
    busy_ns: int
    idle_ns: dict[Reason, int]


@dataclass(frozen=True)
class CommunicationOverlap:
    """Communication beside computation, over all streams; copies are neither."""

    communication_ns: int
    computation_ns: int
    both_ns: int
    share: Metric


@dataclass(frozen=True)
class GpuTime:
    """The time between two instants by what the GPU as a whole did: the five parts make `span_ns`.

    running_ns   an op ran on any stream
    starved_ns   none ran and none had been launched: the queue was empty, the GPU waited for the host
    launch_ns    none ran, from a launch to the start, within what a launch takes
    waiting_ns   none ran though one had been launched, for longer: what it waited for is not in the file
    untold_ns    none ran, and the launch of the op that came next is not in the file
    talking_ns   of `running_ns`: communication ran and nothing else
    queued_ns    median time that an op waited in the queue after its launch; None where no launch is in the file
    launches     share of its ops whose launches are in the file
    """

    span_ns: int
    running_ns: int
    starved_ns: int
    launch_ns: int
    waiting_ns: int
    untold_ns: int
    talking_ns: int
    queued_ns: float | None
    launches: float

    def share(self, ns: int) -> float:
        """A time as a share of the whole."""
        return ns / self.span_ns if self.span_ns else 0.0


def gpu_idle(trace: Trace) -> tuple[StreamIdle, ...]:
    """Each lane of a device, in order of name, with what it was idle for. TraceError for a malformed trace."""
    units = slices_by_unit(trace)
    by_lane: dict[str, list[tuple[UnitSlices, LaneAccount]]] = {}
    for unit, of_unit in zip(units, account(trace, units), strict=True):
        if role_of(unit.span.lane) in DEVICE_ROLES and len(unit.rows):
            by_lane.setdefault(unit.span.lane, []).append((unit, of_unit))
    return tuple(_stream(trace, lane, by_lane[lane]) for lane in sorted(by_lane))


def device_span(trace: Trace) -> tuple[int, int]:
    """When the first op of any stream began and the last one ended; (0, 0) where there is none."""
    rows = np.flatnonzero(_on_device(trace))
    return (int(trace["start_ns"][rows].min()), int(trace["end_ns"][rows].max())) if len(rows) else (0, 0)


def gpu_time(trace: Trace, start_ns: int, end_ns: int) -> GpuTime | None:
    """What the GPU did between two instants. None where no op ran on a lane of a device.

    That an op was launched long before it began shows that the host was ahead of the GPU; it takes no synchronisation to see that.
    """
    rows = np.flatnonzero(_on_device(trace))
    if not len(rows) or end_ns <= start_ns:
        return None
    rows = rows[np.argsort(trace["start_ns"][rows], kind="stable")]
    begun = trace["start_ns"][rows]
    launched = np.minimum(trace["queued_ns"][rows], begun)
    known = (trace["submit_ns"][rows] < begun) | (launched < begun)
    next_launched = np.minimum.accumulate(np.where(known, launched, np.iinfo(np.int64).max)[::-1])[::-1]  # of all that are still to begin
    idle_ns: dict[str, int] = dict.fromkeys(("starved", "launch", "waiting", "untold"), 0)
    running = _common(_merged(trace, rows), [(start_ns, end_ns)])
    for (_, since_ns), (until_ns, _) in pairwise([(start_ns, start_ns), *running, (end_ns, end_ns)]):
        after = int(np.searchsorted(begun, until_ns))
        ready_ns = min(max(int(next_launched[after]), since_ns), until_ns) if after < len(rows) else until_ns
        idle_ns["starved" if after == len(rows) or known[after] else "untold"] += ready_ns - since_ns
        idle_ns["launch" if until_ns - ready_ns <= LAUNCH_GAP_NS else "waiting"] += until_ns - ready_ns
    talks = _named(trace, COMMUNICATION)[rows]
    talking, computing = _merged(trace, rows[talks]), _merged(trace, rows[~talks])
    alone_ns = _length(_common(talking, [(start_ns, end_ns)])) - _length(_common(_common(talking, computing), [(start_ns, end_ns)]))
    lags = (begun - launched)[known & (begun >= start_ns) & (begun < end_ns)]
    queued_ns = float(np.median(lags)) if len(lags) else None
    parts = (idle_ns[part] for part in ("starved", "launch", "waiting", "untold"))
    return GpuTime(end_ns - start_ns, _length(running), *parts, alone_ns, queued_ns, float(known.mean()))


def all_idle_ns(trace: Trace) -> int | None:
    """From the first op of any stream to the last: how long none ran. None where no stream had one."""
    busy = _merged(trace, np.flatnonzero(_on_device(trace)))
    return busy[-1][1] - busy[0][0] - _length(busy) if busy else None


def communication_overlap(trace: Trace) -> CommunicationOverlap:
    """How much of the communication (kernels of nccl and its kin, by name) ran while a computing kernel ran."""
    talks, copies = _named(trace, COMMUNICATION), _named(trace, COPIES)
    ran = _on_device(trace)
    talking, computing = _merged(trace, np.flatnonzero(ran & talks)), _merged(trace, np.flatnonzero(ran & ~talks & ~copies))
    talking_ns, computing_ns, both_ns = _length(talking), _length(computing), _length(_common(talking, computing))
    n, reason = int((ran & talks).sum()), None if talking_ns else "no communication: no kernel of nccl or its kin ran"
    share = Metric("communication beside computation", both_ns / talking_ns if talking_ns else None, "share", n, _BESIDE, "higher", reason)
    return CommunicationOverlap(talking_ns, computing_ns, both_ns, share)


def _on_device(trace: Trace) -> np.ndarray:
    """By row, whether it is an op that ran on a lane of a device."""
    on_device = np.array([role_of(lane) in DEVICE_ROLES for lane in trace.lanes], bool)[trace["lane"]]
    return on_device & (trace["kind"] == KIND_OP) & (trace["start_ns"] >= 0)


def _named(trace: Trace, beginnings: tuple[str, ...]) -> np.ndarray:
    """By row, whether the op's name begins with one of these."""
    return np.array([name.lower().startswith(beginnings) for name in trace.names], bool)[trace["name"]]


def _stream(trace: Trace, lane: str, units: list[tuple[UnitSlices, LaneAccount]]) -> StreamIdle:
    rows = np.concatenate([unit.rows for unit, _ in units])
    busy = _merged(trace, rows)
    idle_ns: dict[Reason, int] = dict.fromkeys(REASONS, 0)
    accounts = {int(trace["start_ns"][row]): of_unit for unit, of_unit in reversed(units) for row in unit.rows}
    stalls = {id(of_unit): iter(of_unit.stalls) for _, of_unit in units}
    for (_, since_ns), (until_ns, _) in pairwise(busy):
        pieces = stalls[id(accounts[until_ns])]  # both in order of time: each stall is looked at once
        for start_ns, end_ns, cause in pieces:
            if end_ns > since_ns:
                idle_ns[_reason(cause, end_ns - start_ns)] += end_ns - max(start_ns, since_ns)
            if end_ns >= until_ns:
                break
    return StreamIdle(lane, len(rows), busy[-1][1] - busy[0][0], _length(busy), idle_ns)


def _reason(cause: Cause, length_ns: int) -> Reason:
    if cause.kind == "dependency":
        return "device-bound"
    if cause.kind == "dispatch":
        return "launch gap" if length_ns <= LAUNCH_GAP_NS else "unexplained"
    return "host-bound"


def _merged(trace: Trace, rows: np.ndarray) -> list[tuple[int, int]]:
    """When any of these rows ran, as intervals that do not touch, in order of time."""
    order = rows[np.lexsort((trace["end_ns"][rows], trace["start_ns"][rows]))]
    merged: list[tuple[int, int]] = []
    for start_ns, end_ns in zip(trace["start_ns"][order].tolist(), trace["end_ns"][order].tolist(), strict=True):
        if merged and start_ns <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end_ns)
        else:
            merged.append((start_ns, end_ns))
    return merged


def _length(intervals: list[tuple[int, int]]) -> int:
    return sum(end_ns - start_ns for start_ns, end_ns in intervals)


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where intervals of both lie."""
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start_ns, end_ns = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start_ns < end_ns:
            common.append((start_ns, end_ns))
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return common
