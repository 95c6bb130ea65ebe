"""Up the chain: what an op waited for, what that waited for, and which of them took the time.

A copy that takes a microsecond is the last dependency of the step that waits for it; the second before it
went into the decode that the copy waited for. Stalls name both.
"""

import numpy as np

from labkit.metrics.dependencies import last_dependency
from labkit.metrics.host_timeline import HostTimeline
from labkit.metrics.labels import NOBODY, Labels, Longest
from labkit.metrics.unit_slices import UnitSlices
from labkit.trace import Trace

FEW = 24
"""So few chains are climbed one by one: a step of all at once costs as much as that many steps of one."""

_Piece = tuple[int, int, int]


class Chain:
    """What came before each op: its last dependency or the op before it on its unit, the later to end."""

    def __init__(self, trace: Trace, units: list[UnitSlices], host: HostTimeline, labels: Labels):
        self._host, self._labels = host, labels
        self._start = trace["start_ns"]
        self.dep_row, self.dep_end = last_dependency(trace)
        before, before_end = np.full(len(trace), -1), np.full(len(trace), -1)
        for unit in units:
            before[unit.rows[1:]], before_end[unit.rows[1:]] = unit.rows[:-1], trace["end_ns"][unit.rows[:-1]]
        self._predecessor = np.where(self.dep_end >= before_end, self.dep_row, before)
        called = np.minimum(trace["queued_ns"], self._start)
        self._called_later = called > np.maximum(self.dep_end, before_end)

    def longest_behind(self, since_ns: np.ndarray, until_ns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """From each row up its chain: the label of what took the longest of the time between two instants; `NOBODY` where nothing did.

        The chain ends at an op that was submitted after its predecessors had ended: before it, the host is
        what was waited for.
        """
        longest = Longest(until_ns - since_ns)
        until_ns, spans = until_ns.copy(), np.arange(len(rows))
        on_host: list[np.ndarray] = []
        while len(spans) > FEW:
            rows, spans = self._climb(longest, since_ns, until_ns, rows, spans, on_host)
        for span, row in zip(spans.tolist(), rows.tolist(), strict=True):
            self._climb_alone(longest, since_ns, until_ns, row, span, on_host)
        if on_host:
            spans = np.concatenate(on_host)
            labels = self._host.mostly(since_ns[spans], until_ns[spans])
            known = labels != NOBODY
            longest.add(spans[known], labels[known], (until_ns - since_ns)[spans[known]])
        return longest.labels()

    def _climb(
        self, longest: Longest, since_ns: np.ndarray, until_ns: np.ndarray, rows: np.ndarray, spans: np.ndarray, on_host: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """One step up all chains: the rows that come next, of the spans that are not done. `until_ns` moves back to where each row began."""
        reached = (rows >= 0) & (self._start[rows] < until_ns[spans]) & (since_ns[spans] < until_ns[spans])
        rows, spans = rows[reached], spans[reached]
        begin = np.maximum(self._start[rows], since_ns[spans])
        still = longest.add(spans, self._labels.of_row[rows], until_ns[spans] - begin)
        until_ns[spans] = begin
        still &= begin > since_ns[spans]
        rows, spans = rows[still], spans[still]
        ends = self._called_later[rows]
        on_host.append(spans[ends])
        return self._predecessor[rows[~ends]], spans[~ends]

    def _climb_alone(
        self, longest: Longest, since_ns: np.ndarray, until_ns: np.ndarray, row: int, span: int, on_host: list[np.ndarray]
    ) -> None:
        """The rest of one chain."""
        since, until = int(since_ns[span]), int(until_ns[span])
        labels, parts = [], []
        while row >= 0 and since < until and self._start[row] < until:
            begin = max(int(self._start[row]), since)
            labels.append(self._labels.of_row[row])
            parts.append(until - begin)
            until = begin
            if until > since and self._called_later[row]:
                on_host.append(np.array([span]))
                break
            row = int(self._predecessor[row])
        until_ns[span] = until
        longest.add(np.full(len(parts), span), np.array(labels, np.int64), np.array(parts, np.int64))
