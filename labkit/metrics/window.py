"""The steady window: the part of a run that its numbers are taken from, the same for all of them.

A completion is an op that completes items and succeeded. The window opens at the end of the last completion
of a warm-up step (without warm-up: at the first completion) and closes at the last completion, so that it
spans whole steps: what completes inside it, after its opening, was worked on inside it.
"""

from dataclasses import dataclass

import numpy as np

from labkit.schedule import Status
from labkit.trace import KIND_OP, Trace


@dataclass(frozen=True, eq=False)
class Window:
    """From when to when, and which completions count.

    rows    rows of the trace that completed inside, after the opening, in order of their ends
    steady  False where nothing completed inside: the window is then the whole run
    """

    start_ns: int
    end_ns: int
    rows: np.ndarray
    steady: bool

    @property
    def wall_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


def completions(trace: Trace) -> np.ndarray:
    """Rows that completed items and succeeded, in order of their ends."""
    done = (
        (trace["kind"] == KIND_OP)
        & (trace["items"] > 0)
        & (trace["status"] == Status.OK)
        & (trace["end_ns"] >= 0)
    )
    rows = np.flatnonzero(done)
    return rows[np.argsort(trace["end_ns"][rows], kind="stable")]


def steady_window(trace: Trace, warmup_steps: int = 0) -> Window:
    """The window after the first `warmup_steps` steps (those numbered 0 to `warmup_steps` − 1)."""
    done = completions(trace)
    steps, ends = trace["step"][done], trace["end_ns"][done]
    warm = (steps >= 0) & (steps < warmup_steps)
    opening = ends[warm][-1:] if warm.any() else ends[:1]
    counted = done[~warm & (ends > opening)] if len(opening) else done[:0]
    if len(counted) == 0:
        return Window(trace.start_ns, trace.end_ns, counted, steady=False)
    return Window(int(opening[0]), int(trace["end_ns"][counted[-1]]), counted, steady=True)
