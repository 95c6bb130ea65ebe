"""Which part of a run's time a second timeline should show, where the whole is so long that its ops cannot be seen."""

import numpy as np

from labkit.trace import KIND_OP, Trace
from labkit.trace.trace import HOST

SPARSE = 0.05
PART = 100


def busiest_view(trace: Trace, first_ns: int, last_ns: int) -> tuple[int, int] | None:
    """The hundredth of a view in which the lanes ran the most. None where they run a twentieth of the whole or more: then that shows them."""
    on_lane = (trace["lane"] != (trace.lanes.index(HOST) if HOST in trace.lanes else -1)) & (trace["kind"] == KIND_OP)
    rows = np.flatnonzero(on_lane & (trace["start_ns"] >= first_ns) & (trace["end_ns"] <= last_ns) & (trace["end_ns"] > trace["start_ns"]))
    start, end = np.sort(trace["start_ns"][rows]), np.sort(trace["end_ns"][rows])
    length_ns = (last_ns - first_ns) // PART
    if not len(rows) or length_ns <= 0 or (end - start).sum() >= SPARSE * (last_ns - first_ns):
        return None
    begun = np.minimum(start, last_ns - length_ns)
    within = _busy_until(begun + length_ns, start, end) - _busy_until(begun, start, end)
    best = int(begun[np.argmax(within)])
    return best, best + length_ns


def _busy_until(instants: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The time that ops had run by each instant, summed over them: of those begun the instant less the start, less what they have been over for."""
    begun, over = np.searchsorted(start, instants), np.searchsorted(end, instants)
    starts, ends = np.concatenate([[0], np.cumsum(start)]), np.concatenate([[0], np.cumsum(end)])
    return (begun * instants - starts[begun]) - (over * instants - ends[over])
