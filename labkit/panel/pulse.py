"""The pulse of a live run: from the rows that arrive with its frames to what the strip draws.

Everything here runs beside the experiment, ten times a second, in the process that shows it: it is cheap, and it looks at
nothing older than a few seconds, except for the completions of each segment.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from labkit.figures.colours import lane_order
from labkit.figures.numbers import count_text
from labkit.metrics.change import change_words
from labkit.panel.frame import REQUESTS, STEPS, StripFrame, StripMark
from labkit.panel.segments import Segments
from labkit.panel.served import Served, busiest_words
from labkit.schedule import Status
from labkit.trace import KIND_OP
from labkit.trace.mirror import Part
from labkit.trace.trace import HOST
from labkit.units import NS_PER_MS, NS_PER_S, format_time

WINDOW_NS = NS_PER_S
SLICES_KEPT = 4096
"""Of each lane. Where more fit in a second, the last second is shown as far as they reach."""
MARKS_SHOWN = 12


class Slice(NamedTuple):
    """An op that ran."""

    end_ns: int
    start_ns: int
    lane: str
    unit: int
    name: str


class Done(NamedTuple):
    """A step that was completed."""

    end_ns: int
    step: int
    items: int


class Pulse:
    """What the strip shows of one run.

    opened_s  when the run's clock stood at 0, in seconds since the strip began
    warmup    steps that do not count for a change
    """

    def __init__(self, opened_s: float, warmup: int):
        self.opened_s = opened_s
        self.segments = Segments(warmup)
        self._coming: list[tuple[int, int, Slice, Done | None]] = []
        self._number = 0
        self._slices: dict[str, deque[Slice]] = {}
        self._done: deque[Done] = deque(maxlen=4096)
        self._widths: dict[str, int] = {}
        self._marks_seen = 0
        self._served = Served()

    def take(self, part: Part, in_flight: int) -> None:
        """Take in what was recorded. `in_flight` steps at most are on their way at any time."""
        for row in part.rows:
            self._take_row(row)
        for mark in part.marks:
            self.segments.toggle(mark, in_flight)
        self._served.take(part, self.segments)
        self._widths = _widths(part) or self._widths  # a device that has closed has no units: the picture stays
        while self._coming and self._coming[0][0] <= part.now_ns:  # a simulated device knows its ends beforehand
            _, _, ran, done = heappop(self._coming)
            self._slices.setdefault(ran.lane, deque(maxlen=SLICES_KEPT)).append(ran)
            if done is not None:
                self._done.append(done)
                self.segments.complete(done.step, done.end_ns, done.items)
        for ran_on_lane in self._slices.values():
            while len(ran_on_lane) > 1 and ran_on_lane[1].end_ns < part.now_ns - 2 * WINDOW_NS:
                ran_on_lane.popleft()

    def frame(self, now_ns: int, before_ns: int, label: str, simulated: bool) -> StripFrame:
        """What to draw: the point for `now_ns`, and the last second of the timeline. `before_ns` was the frame before."""
        lanes = tuple(sorted(self._widths, key=lane_order))
        rate = self._items_per_s(now_ns)
        interval_ns = self._interval_ns(before_ns)
        busy = [self._busy(lane, now_ns) for lane in lanes]
        serves, by_lane = self._served.any, dict(zip(lanes, busy, strict=True))
        second_ns = self._served.slowest_ns(now_ns) if serves else interval_ns
        point = [self.opened_s + now_ns / NS_PER_S, _or_nan(rate), _or_nan(second_ns, NS_PER_MS), *map(_or_nan, busy)]
        rows, slices, names = self._timeline(lanes, now_ns)
        return StripFrame(
            now_s=point[0],
            points=np.array([point], np.float32),
            lanes=lanes,
            rows=rows,
            slices=slices,
            names=names,
            marks=self.marks(),
            label=label,
            simulated=simulated,
            tiles=self._served.tiles(rate, by_lane) if serves else _tiles(rate, self._last_interval_ns(), by_lane),
            series=REQUESTS if serves else STEPS,
        )

    def marks(self) -> tuple[StripMark, ...]:
        """The toggles of this run, the newest last, with the change since each."""
        segments = self.segments.all
        first = max(1, len(segments) - MARKS_SHOWN)
        return tuple(
            StripMark(
                self.opened_s + segments[number].since_ns / NS_PER_S,
                segments[number].words,
                self._served.change_words(number) if self._served.any else change_words(self.segments.change(number)),
            )
            for number in range(first, len(segments))
        )

    # ---- inside -------------------------------------------------------------------------------------------

    def _take_row(self, row: tuple[Any, ...]) -> None:
        _, kind, name, lane, unit, step, items, _, _, start, end, *_ = row
        if kind != KIND_OP or start < 0 or row[14] != Status.OK:
            return
        done = Done(end, step, items) if items > 0 else None
        self._number += 1
        heappush(self._coming, (end, self._number, Slice(end, start, lane, unit, name), done))

    def _items_per_s(self, now_ns: int) -> float | None:
        """Items per second over the last second, between completions of one segment; None where two are not there."""
        since = max(now_ns - WINDOW_NS, self.segments.now.since_ns)
        recent = list(self._reversed_done(since))
        if len(recent) < 2 or recent[0].end_ns <= recent[-1].end_ns:
            return None
        items = sum(done.items for done in recent[:-1])
        return items / (recent[0].end_ns - recent[-1].end_ns) * NS_PER_S

    def _reversed_done(self, since_ns: int) -> Iterable[Done]:
        """The completions back to `since_ns`, newest first, and always the newest two."""
        for number, done in enumerate(reversed(self._done)):
            if done.end_ns < since_ns and number >= 2:
                return
            yield done

    def _interval_ns(self, before_ns: int) -> float | None:
        """The mean step interval of the steps completed since the frame before; None where none was."""
        recent = list(self._reversed_done(before_ns + 1))
        new = sum(done.end_ns > before_ns for done in recent)
        if new == 0 or len(self._done) <= new:
            return None
        ends = [done.end_ns for _, done in zip(range(new + 1), reversed(self._done), strict=False)]
        return (ends[0] - ends[-1]) / new

    def _last_interval_ns(self) -> float | None:
        ends = [done.end_ns for _, done in zip(range(9), reversed(self._done), strict=False)]
        return (ends[0] - ends[-1]) / (len(ends) - 1) if len(ends) > 1 else None

    def _busy(self, lane: str, now_ns: int) -> float | None:
        """The busy share of a lane over the last second.

        An op is known when it has ended. So the window ends at the lane's last end, unless that is so long ago that the lane must
        be idle.
        """
        ran = self._slices.get(lane)
        if not ran:
            return 0.0 if lane in self._widths else None
        last_ns = ran[-1].end_ns
        longest_ns = max(each.end_ns - each.start_ns for each in ran)
        until_ns = last_ns if now_ns - last_ns < 2 * longest_ns else now_ns
        since_ns = max(until_ns - WINDOW_NS, 0)
        if len(ran) == SLICES_KEPT:
            since_ns = max(since_ns, ran[0].start_ns)
        busy_ns = sum(max(each.end_ns - max(each.start_ns, since_ns), 0) for each in ran)
        return min(busy_ns / max((until_ns - since_ns) * self._widths.get(lane, 1), 1), 1.0)

    def _timeline(self, lanes: tuple[str, ...], now_ns: int) -> tuple[tuple[str, ...], np.ndarray, tuple[str, ...]]:
        """Rows, slices and op names of the last second."""
        shown = [each for lane in lanes for each in self._slices.get(lane, ()) if each.end_ns > now_ns - WINDOW_NS]
        rows = [(lane, unit) for lane in lanes for unit in range(self._widths[lane])]
        place = {row: number for number, row in enumerate(rows)}
        names = tuple(dict.fromkeys(each.name for each in shown))
        code = {name: number for number, name in enumerate(names)}
        slices = np.array(
            [
                (place[each.lane, each.unit], each.start_ns - now_ns, each.end_ns - now_ns, code[each.name])
                for each in shown
                if (each.lane, each.unit) in place
            ],
            np.float64,
        ).reshape(-1, 4)
        slices[:, 1:3] = np.maximum(slices[:, 1:3] / NS_PER_S, -1.0)
        words = tuple(lane if self._widths[lane] == 1 else f"{lane} {unit}" for lane, unit in rows)
        return words, slices.astype(np.float32), names


def _widths(part: Part) -> dict[str, int]:
    """Units of each lane that are there now; none where the program is the only one left."""
    widths: dict[str, int] = {}
    for span in part.units:
        if span.close_ns >= part.now_ns:
            widths[span.lane] = max(widths.get(span.lane, 0), span.unit + 1)
    return widths if widths.keys() - {HOST} else {}


def _tiles(rate: float | None, interval_ns: float | None, busy: dict[str, float | None]) -> tuple[tuple[str, str], ...]:
    return (
        ("throughput", "–" if rate is None else f"{count_text(rate)} items/s"),
        ("step interval", format_time(interval_ns)),
        ("busiest lane", busiest_words(busy)),
    )


def _or_nan(value: float | None, unit: float = 1.0) -> float:
    return float("nan") if value is None else value / unit
