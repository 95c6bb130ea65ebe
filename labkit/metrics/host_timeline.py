"""What the host was doing, and when: waiting, running an op inline, launching, or the kernel's own program.

Lanes that idle because nothing was submitted to them are charged to what the host did meanwhile.
"""

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from labkit.metrics.unit_slices import HOST
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex

LAUNCHING = "launching"
PROGRAM = "host program"
DEADLINE = "a set time"


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
                _add(times, Doing(PROGRAM), begin - at)
                _add(times, self.of_row(self._rows[place]), end - begin)
                at = end
            place += 1
        _add(times, Doing(PROGRAM), until_ns - at)
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
