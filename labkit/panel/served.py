"""What the strip shows of requests: answers as they come, how slow the slowest was, who waits, and what a toggle did to the median.

Belongs to the pulse, and is as cheap: it looks at the last second, and keeps two thousand latencies of each segment.
"""

from collections import deque

import numpy as np

from labkit.figures.numbers import count_text
from labkit.metrics.percentiles import quantile, samples_needed
from labkit.panel.segments import Segments
from labkit.schedule import Answer
from labkit.trace.mirror import Part
from labkit.trace.trace import REQUEST_COLUMNS
from labkit.units import ABSENT, NS_PER_S, format_percent, format_time

KEPT = 2000
TOO_FEW = 20
WINDOW_NS = NS_PER_S

_DUE, _DONE, _ANSWER = (REQUEST_COLUMNS.index(name) for name in ("due_ns", "done_ns", "answer"))


class Served:
    """The requests of one run, as its parts come in."""

    def __init__(self) -> None:
        self.any = False
        self._recent: deque[tuple[int, int]] = deque()
        self._by_segment: list[deque[int]] = []
        self._waiting: int | None = None
        self._sent = self._unserved = 0

    def take(self, part: Part, segments: Segments) -> None:
        """Take in the answers that a part brings."""
        self._waiting = part.gauges.get("waiting", self._waiting)
        if not len(part.requests):
            return
        self.any = True
        rows = np.array(part.requests, np.int64).reshape(-1, len(REQUEST_COLUMNS))
        served = rows[rows[:, _ANSWER] == Answer.SERVED]
        self._sent, self._unserved = self._sent + len(rows), self._unserved + len(rows) - len(served)
        latency_ns = served[:, _DONE] - served[:, _DUE]
        self._recent.extend(zip(served[:, _DONE].tolist(), latency_ns.tolist(), strict=True))
        while len(self._by_segment) < len(segments.all):
            self._by_segment.append(deque(maxlen=KEPT))
        begins = np.array([segment.since_ns for segment in segments.all])
        places = np.maximum(np.searchsorted(begins, served[:, _DUE], side="right") - 1, 0)
        for place, ns in zip(places.tolist(), latency_ns.tolist(), strict=True):
            self._by_segment[place].append(ns)

    def slowest_ns(self, now_ns: int) -> int | None:
        """The latency of the slowest answer of the last second; None where there was none."""
        while self._recent and self._recent[0][0] < now_ns - WINDOW_NS:
            self._recent.popleft()
        return max((latency for done, latency in self._recent if done <= now_ns), default=None)

    def tiles(self, rate: float | None, busy: dict[str, float | None]) -> tuple[tuple[str, str], ...]:
        """The big numbers: answers, latency since the last toggle, who waits, the busiest lane."""
        unserved = f", {count_text(self._unserved)} unserved" if self._unserved else ""
        return (
            ("answers", ABSENT if rate is None else f"{count_text(rate)} requests/s"),
            ("latency p50 · p99", f"{self._latency(0.5)} · {self._latency(0.99)}"),
            ("waiting", (ABSENT if self._waiting is None else count_text(self._waiting)) + unserved),
            ("busiest lane", busiest_words(busy)),
        )

    def change_words(self, number: int) -> str:
        """What a toggle did to the median latency: `median 12 ms → 5 ms`; "…" while there are too few answers to say."""
        before, after = (self._median(place) for place in (number - 1, number))
        return "…" if before is None or after is None else f"median {format_time(before, 2)} → {format_time(after, 2)}"

    def _latency(self, q: float) -> str:
        latest = sorted(self._by_segment[-1]) if self._by_segment else []
        return format_time(quantile(latest, q), 2) if len(latest) >= max(samples_needed(q), 1) else ABSENT

    def _median(self, place: int) -> float | None:
        of_segment = sorted(self._by_segment[place]) if 0 <= place < len(self._by_segment) else []
        return quantile(of_segment, 0.5) if len(of_segment) >= TOO_FEW else None


def busiest_words(busy: dict[str, float | None]) -> str:
    """`compute 93 %`."""
    known = {lane: share for lane, share in busy.items() if share is not None}
    busiest = max(known, key=known.__getitem__) if known else ""
    return f"{busiest} {format_percent(known[busiest])}" if busiest else ABSENT
