"""Segments: a live run cut at its toggles, and what throughput did at each of them.

Toggles that come close together are one mark: a slider that is dragged, a preset that turns six knobs. A segment begins to count when
what was in flight at its toggle has drained, so that no step of the old settings is among those of the new ones.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from labkit.knobs.text import value_text
from labkit.metrics.change import Change, Completions, change
from labkit.trace import Mark
from labkit.units import NS_PER_S

TOGETHER_NS = NS_PER_S // 2
STEPS_COMPARED = 2000
SETTLED_STEPS, SETTLED_NS = 30, 2 * NS_PER_S


@dataclass
class Segment:
    """The part of a run between two toggles.

    since_ns    when its last toggle came, 0 for the first segment
    first_step  the first step that counts
    turned      knob → (value before, value now), of all toggles that are one mark
    first, last  (end, items) of its first steps and of its last, `STEPS_COMPARED` each at most
    steps       how many were completed
    """

    since_ns: int = 0
    first_step: int = 0
    turned: dict[str, tuple[object, object]] = field(default_factory=dict)
    first: list[tuple[int, int]] = field(default_factory=list)
    last: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=STEPS_COMPARED))
    steps: int = 0

    def add(self, end_ns: int, items: int) -> None:
        """A step was completed. Of a long segment its first steps and its last are kept."""
        self.steps += 1
        self.last.append((end_ns, items))
        if len(self.first) < STEPS_COMPARED:
            self.first.append((end_ns, items))

    @property
    def words(self) -> str:
        """`prefetch 0 → 4, pinned false → true`."""
        return ", ".join(f"{knob} {value_text(old)} → {value_text(new)}" for knob, (old, new) in self.turned.items())

    @property
    def settled(self) -> bool:
        """Whether enough has been completed for figures of this segment."""
        return self.steps >= SETTLED_STEPS and self.last[-1][0] - self.first[0][0] >= SETTLED_NS

    def completions(self, *, last: bool) -> Completions:
        """Its last or its first steps, as many as are compared."""
        ends_and_items = np.array(self.last if last else self.first, np.int64).reshape(-1, 2)
        return Completions(ends_and_items[:, 0], ends_and_items[:, 1])


class Segments:
    """The segments of one run, as its completions and toggles come in.

    first_step  the step from which on the first segment counts: the end of the warm-up
    """

    def __init__(self, first_step: int):
        self.all = [Segment(first_step=first_step)]
        self._changes: dict[int, tuple[int, Change]] = {}

    @property
    def now(self) -> Segment:
        """The segment that is going on."""
        return self.all[-1]

    def toggle(self, mark: Mark, in_flight: int) -> None:
        """A knob was turned; `in_flight` steps at most were on their way."""
        begins = mark.step + in_flight
        now = self.now
        if now.turned and mark.time_ns - now.since_ns < TOGETHER_NS:
            before = now.turned.get(mark.knob, (mark.old, mark.new))[0]
            now.turned[mark.knob] = (before, mark.new)
            now.since_ns, now.first_step = mark.time_ns, begins
            now.first, now.steps = [], 0
            now.last.clear()
            return
        self.all.append(Segment(mark.time_ns, begins, {mark.knob: (mark.old, mark.new)}))

    def complete(self, step: int, end_ns: int, items: int) -> None:
        """A step was completed. Steps on their way at a toggle belong to no segment."""
        for number in (-1, -2):
            if len(self.all) < -number:
                return
            segment = self.all[number]
            if step >= segment.first_step and end_ns > segment.since_ns:
                if number == -1 or end_ns <= self.now.since_ns:
                    segment.add(end_ns, items)
                return

    def change(self, number: int) -> Change:
        """What throughput did from segment `number` − 1 to `number`; reckoned anew only where steps were added."""
        before, after = self.all[number - 1], self.all[number]
        size = before.steps + min(after.steps, STEPS_COMPARED)
        known = self._changes.get(number)
        if known is not None and known[0] == size:
            return known[1]
        found = change(before.completions(last=True), after.completions(last=False))
        self._changes[number] = (size, found)
        return found
