"""The parts of a run on the virtual clock, as a worker would send them: for the pulse, without a worker."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit.schedule import Status
from labkit.trace import KIND_OP, Mark, UnitSpan
from labkit.trace.mirror import Part
from labkit.units import NS_PER_MS

PERIOD_NS = 100 * NS_PER_MS


@dataclass(frozen=True)
class VirtualRun:
    """A compute lane that is busy for `busy_ms` of every step of `step_ms`; each step completes `items`.

    toggles  step → (knob, old, new, the step's new length in ms)
    """

    step_ms: float
    busy_ms: float
    steps: int
    items: int = 16
    toggles: tuple[tuple[int, str, Any, Any, float], ...] = ()

    def rows_and_marks(self) -> tuple[list[tuple[Any, ...]], list[Mark]]:
        rows, marks, now_ns, step_ms = [], [], 0, self.step_ms
        toggles = {step: rest for step, *rest in self.toggles}
        for step in range(self.steps):
            if step in toggles:
                knob, old, new, step_ms = toggles[step]
                marks.append(Mark(now_ns, step, knob, old, new))
            end_ns = now_ns + round(step_ms * NS_PER_MS)
            start_ns = end_ns - round(self.busy_ms * NS_PER_MS)
            rows.append(
                (step, KIND_OP, "forward", "compute", 0, step, self.items, now_ns, now_ns, start_ns, end_ns, 0, 0, -1, Status.OK, ())
            )
            now_ns = end_ns
        return rows, marks

    def parts(self) -> Iterator[Part]:
        """Ten a second, until all has ended."""
        rows, marks = self.rows_and_marks()
        now_ns = sent_rows = sent_marks = 0
        meta = {"device_label": "CPU threads", "measured": True}
        while sent_rows < len(rows):
            now_ns += PERIOD_NS
            upto = next((at for at, row in enumerate(rows) if row[10] > now_ns), len(rows))
            turned = [mark for mark in marks[sent_marks:] if mark.time_ns <= now_ns]
            units = (UnitSpan("compute", 0, 0, now_ns),)
            yield Part(now_ns, rows[sent_rows:upto], turned, units, meta)
            sent_rows, sent_marks = upto, sent_marks + len(turned)
