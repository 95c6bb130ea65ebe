"""What the host was doing, and when: waiting, running an op inline, launching, or the kernel's own program.

Lanes that idle because nothing was submitted to them are charged to what the host did meanwhile.
"""

import numpy as np

from labkit.metrics.labels import NOBODY, Labels, Longest, spread_out
from labkit.metrics.unit_slices import HOST
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace
from labkit.trace.trace import RowIndex

LAUNCHING = "launching"
PROGRAM = "host program"
DEADLINE = "a set time"
NEXT_REQUEST = "the next request or a delay"
PROGRAM_OR_WAIT = "host program, or a wait that is not in the file"

PARTS_AT_ONCE = 1_000_000
"""Parts of the host's time that are looked at together: what bounds the memory that `mostly` takes."""


def program_of(trace: Trace) -> str:
    """What the host did between its verbs: its program, which in an imported trace without synchronisations may as well have waited."""
    return PROGRAM if trace.meta.get("host_waits_told", True) else PROGRAM_OR_WAIT


def deadline_of(trace: Trace) -> str:
    """What a wait until a set time is called: a server sets it to the next arrival, or to the end of a delay."""
    return NEXT_REQUEST if len(trace.requests["request"]) else DEADLINE


class HostTimeline:
    """The host's time, cut where it began to do something else: each part a label, its own program between its verbs.

    of_row    the label of what each row is for the host: whom a wait awaited, an inline op, or launching
    deadline  the label of a wait for a set time
    """

    def __init__(self, trace: Trace, labels: Labels):
        kind = trace["kind"]
        on_host = np.array([lane == HOST for lane in trace.lanes], bool)[trace["lane"]]
        slices = on_host & (trace["start_ns"] >= 0) & (kind != KIND_LAUNCH)
        self.deadline = labels.number(deadline_of(trace), "")
        self.of_row = np.where(slices & (kind == KIND_OP), labels.of_row, labels.number(LAUNCHING, HOST))
        waits = np.flatnonzero(kind == KIND_WAIT)
        self.of_row[waits] = self._awaited(trace, labels, waits)
        start = np.where(slices, trace["start_ns"], trace["submit_ns"])
        end = np.where(slices, trace["end_ns"], trace["queued_ns"])
        self.first_ns = int(trace["submit_ns"].min()) if len(end) else None
        self.last_ns = int(end.max()) if len(end) else None
        self._starts, self._labels = self._parts(start, end, labels.number(program_of(trace), HOST))

    def mostly(self, since_ns: np.ndarray, until_ns: np.ndarray) -> np.ndarray:
        """The label of what the host did for the longest time between two instants, for each pair; `NOBODY`: its program had not begun."""
        longest = Longest(until_ns - since_ns)
        if len(self._starts) and len(since_ns):
            first = np.searchsorted(self._starts, since_ns, "right") - 1
            counts = np.searchsorted(self._starts, until_ns, "left") - first
            block = np.cumsum(counts) // PARTS_AT_ONCE
            for spans in np.split(np.arange(len(counts)), np.flatnonzero(np.diff(block)) + 1):
                whose, place = spread_out(counts[spans])
                whose, part = spans[whose], first[spans[whose]] + place
                begin = np.maximum(self._starts[part], since_ns[whose])
                end = np.minimum(self._starts[np.minimum(part + 1, len(self._starts) - 1)], until_ns[whose])
                end = np.where(part + 1 < len(self._starts), end, until_ns[whose])
                longest.add(whose, self._labels[part], end - begin)
        return longest.labels()

    def _awaited(self, trace: Trace, labels: Labels, waits: np.ndarray) -> np.ndarray:
        """The label of the op that ended each wait."""
        woke_by = trace["woke_by"][waits]
        wakers = RowIndex(trace).rows(woke_by)
        found = np.where(wakers >= 0, labels.of_row[wakers], self.deadline)
        for place in np.flatnonzero((wakers < 0) & (woke_by >= 0)).tolist():
            found[place] = labels.number(f"op {woke_by[place]}, not kept", "")
        return found

    def _parts(self, start: np.ndarray, end: np.ndarray, program: int) -> tuple[np.ndarray, np.ndarray]:
        """When each part begins, and its label; the first has none and is that before the program began. What lies inside another is part of it."""
        if self.first_ns is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.lexsort((-end, start))
        over = np.maximum.accumulate(np.concatenate([[self.first_ns], end[order]]))[:-1]
        begin = np.maximum(start[order], over)
        kept = end[order] > begin
        order, begin = order[kept], begin[kept]
        starts = np.concatenate([[np.iinfo(np.int64).min, self.first_ns], np.stack([begin, end[order]], 1).ravel()])
        labels = np.concatenate([[NOBODY, program], np.stack([self.of_row[order], np.full(len(order), program)], 1).ravel()])
        lasting = np.append(np.diff(starts[1:]) > 0, True)
        return starts[np.append(True, lasting)], labels[np.append(True, lasting)]
