"""The profiler's steps, from its annotations `ProfilerStep#n`: which step an instant of the host's time belongs to."""

from bisect import bisect_right
from collections.abc import Sequence

from labkit.trace.kineto.events import Event

NO_STEP = -1


class Steps:
    """The steps of a file, counted from 0 in order of time; of annotations with one name the first counts."""

    def __init__(self, events: Sequence[Event]):
        named: dict[str, Event] = {}
        for event in events:
            if event.category == "user_annotation" and event.name.startswith("ProfilerStep#"):
                named.setdefault(event.name, event)
        spans = sorted((event.start_ns, event.end_ns) for event in named.values())
        self._starts, self._ends = [start_ns for start_ns, _ in spans], [end_ns for _, end_ns in spans]

    def begun_ns(self, otherwise_ns: int) -> int:
        """When the first step began, or what stands otherwise where there is none."""
        return self._starts[0] if self._starts else otherwise_ns

    def of(self, time_ns: int) -> int:
        """The step at an instant; `NO_STEP` between steps."""
        step = bisect_right(self._starts, time_ns) - 1
        return step if step >= 0 and time_ns < self._ends[step] else NO_STEP

    def last_ops(self, work: Sequence[Event], begun_ns: Sequence[int]) -> set[int]:
        """The place of the op of each step that ends last, where a step is where its launch began."""
        last: dict[int, int] = {}
        for place, (event, begun) in enumerate(zip(work, begun_ns, strict=True)):
            step = self.of(begun)
            if step != NO_STEP and (step not in last or event.end_ns >= work[last[step]].end_ns):
                last[step] = place
        return set(last.values())
