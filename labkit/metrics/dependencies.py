"""For each row, the dependency that ended last: what it waited for, as far as other ops are concerned."""

import numpy as np

from labkit.trace import Trace
from labkit.trace.trace import RowIndex

NONE = -1


def last_dependency(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The row of each row's last dependency to end, and that end in ns; −1 where none ran or was kept."""
    lengths = np.diff(trace.dep_offsets)
    sources = RowIndex(trace).rows(trace.dep_ids)
    ends = np.where(sources >= 0, trace["end_ns"][sources], NONE) if len(trace) else sources
    order = np.lexsort((ends, np.repeat(np.arange(len(trace)), lengths)))
    rows, last_end = np.full(len(trace), NONE), np.full(len(trace), NONE)
    some = lengths > 0
    last = order[trace.dep_offsets[1:][some] - 1]
    last_end[some] = ends[last]
    rows[some] = np.where(ends[last] >= 0, sources[last], NONE)
    return rows, last_end
