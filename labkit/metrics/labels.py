"""What ran where, as one whole number, and which of them took the longest: the arithmetic of causes, for many gaps at once.

An op's name and its lane make a label, and so does what the host did besides ops. Sums by label are then sums by number.
"""

import numpy as np

from labkit.trace import Trace

NOBODY = -1
"""No label: nothing, or nobody knows."""


class Labels:
    """The labels of a trace: `name × lanes + lane` for ops, further numbers for other pairs of words.

    of_row  the label of each row's op
    """

    def __init__(self, trace: Trace):
        self._names, self._lanes = trace.names, trace.lanes
        self._ops = len(trace.names) * len(trace.lanes)
        self._further: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self.of_row: np.ndarray = trace["name"].astype(np.int64) * len(trace.lanes) + trace["lane"]

    def __len__(self) -> int:
        return self._ops + len(self._further)

    def number(self, op: str, lane: str) -> int:
        """The label of a pair of words: that of the op of this name on this lane, if the trace has both."""
        if (op, lane) not in self._numbers:
            self._numbers[op, lane] = self._found(op, lane)
        return self._numbers[op, lane]

    def words(self, label: int) -> tuple[str, str]:
        """The pair that a label stands for: an op, or what else was done, and its lane."""
        if label >= self._ops:
            return self._further[label - self._ops]
        name, lane = divmod(label, len(self._lanes))
        return self._names[name], self._lanes[lane]

    def _found(self, op: str, lane: str) -> int:
        if op in self._names and lane in self._lanes:
            return self._names.index(op) * len(self._lanes) + self._lanes.index(lane)
        self._further.append((op, lane))
        return len(self) - 1


class Longest:
    """For many spans of time at once: the label that took the longest of each. Of equally long ones, the first that was told of."""

    def __init__(self, lengths_ns: np.ndarray):
        self._lengths_ns = lengths_ns
        self._found = np.full(len(lengths_ns), NOBODY)
        self._decided = np.zeros(len(lengths_ns), bool)
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, spans: np.ndarray, labels: np.ndarray, ns: np.ndarray) -> np.ndarray:
        """Tell of parts of spans. Returns, for each part, whether its span is still open: what took more than half of one decides it."""
        decides = 2 * ns > self._lengths_ns[spans]
        self._found[spans[decides]] = labels[decides]
        self._decided[spans[decides]] = True
        still = ~self._decided[spans]
        self._parts.append((spans[still], labels[still], ns[still]))
        return still

    def labels(self) -> np.ndarray:
        """The label of each span, `NOBODY` where nothing was told of it."""
        if not self._parts:
            return self._found
        spans, labels, ns = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts = []
        still = np.flatnonzero(~self._decided[spans])
        if len(still):
            order = still[np.lexsort((labels[still], spans[still]))]  # stable: of one label, the first that was told stays the first
            changes = np.diff(spans[order], prepend=-1).astype(bool) | np.diff(labels[order], prepend=NOBODY - 1).astype(bool)
            begins = np.flatnonzero(changes)
            sums, firsts = np.add.reduceat(ns[order], begins), order[begins]
            best = np.lexsort((firsts, -sums, spans[firsts]))
            chosen = firsts[best[np.flatnonzero(np.diff(spans[firsts[best]], prepend=-1))]]
            self._found[spans[chosen]] = labels[chosen]
        return self._found


def spread_out(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For counts 2, 0, 3: whose each one is (0 0 2 2 2), and its place among those (0 1 0 1 2)."""
    whose = np.repeat(np.arange(len(counts)), counts)
    return whose, np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
