"""Reads one profiler trace in a process of its own: "go N" reads the N-th file of the command line and says what that took.

The peak is the process's own high-water mark, less what it held before: one reading a process, so that it means that file.
"""

import resource
import sys
from time import perf_counter
from typing import Any

from labkit.metrics.summary import summarize
from labkit.trace.kineto import read_kineto
from tests.bench.contender import serve

BYTES_PER_KIB = 1024


def read(path: str) -> dict[str, Any]:
    """Peak memory over what was held before in bytes, seconds, rows; summarising it comes after and is shown beside."""
    before, began = _peak_bytes(), perf_counter()
    trace = read_kineto(path).trace
    took, peak = perf_counter() - began, _peak_bytes()
    summarize(trace)
    return {"peak_bytes": peak - before, "seconds": took, "rows": len(trace), "peak_with_summary_bytes": _peak_bytes() - before}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_KIB


if __name__ == "__main__":
    paths = sys.argv[1:]
    serve(lambda place: read(paths[place]))
