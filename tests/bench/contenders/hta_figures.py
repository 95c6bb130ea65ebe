"""Holistic Trace Analysis on profiler traces: "go N" analyses the N-th file of the command line, and gives its figures in ns.

Runs in the peers' environment and imports nothing of labkit but the protocol. HTA is asked by its public functions; busy times, which
it has no function for, are its own `merge_kernel_intervals` on the frame that its own filter leaves.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.contender import serve

OUR_REASONS = {"host_wait": "host-bound", "kernel_wait": "launch gap", "other": "unexplained"}
WORK = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
NS_PER_US = 1000


def figures(path: str) -> dict[str, Any]:
    """Of one file: stream → busy, idle and idle by reason; the overlap, and what HTA raised where it raised."""
    from hta.trace_analysis import TraceAnalysis

    found: dict[str, Any] = {"streams": {}, "overlap": None, "gpu_idle_ns": None, "raised": {}}
    try:
        analysis = TraceAnalysis({0: path}, str(Path(path).parent), include_last_profiler_step=True)
        found["streams"] = _busy(analysis)
    except Exception as error:  # whatever a peer raises is its result
        found["raised"]["reading it"] = f"{type(error).__name__}: {error}"
        return found
    parts: dict[str, Callable[[], None]] = {
        "get_idle_time_breakdown": lambda: _idle(analysis, found["streams"]),
        "get_comm_comp_overlap": lambda: found.update(overlap=_overlap(analysis)),
        "get_temporal_breakdown": lambda: found.update(gpu_idle_ns=_ns(analysis.get_temporal_breakdown(visualize=False)["idle_time(us)"][0])),
    }
    for name, part in parts.items():
        try:
            part()
        except Exception as error:  # as above
            found["raised"][name] = f"{type(error).__name__}: {error}"
    return found


def _busy(analysis: Any) -> dict[str, dict[str, Any]]:
    from hta.utils.utils import merge_kernel_intervals

    frame, ids = analysis.t.get_trace(0), analysis.t.symbol_table.get_sym_id_map()
    work = frame[frame["stream"].ne(-1) & frame["cat"].isin([ids[name] for name in WORK if name in ids])]
    streams: dict[str, dict[str, Any]] = {}
    for stream, of_stream in work.groupby("stream"):
        merged = merge_kernel_intervals(of_stream.copy())
        streams[str(int(stream))] = {"ops": len(of_stream), "busy_ns": _ns((merged["end"] - merged["ts"]).sum())}
    return streams


def _idle(analysis: Any, streams: dict[str, dict[str, Any]]) -> None:
    idle, _ = analysis.get_idle_time_breakdown(visualize=False)
    for stream in streams.values():
        stream["idle_ns"] = dict.fromkeys(OUR_REASONS.values(), 0)
    for row in idle.itertuples():
        streams[str(int(row.stream))]["idle_ns"][OUR_REASONS[row.idle_category]] = _ns(row.idle_time)


def _overlap(analysis: Any) -> float | None:
    percent = float(analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"][0])
    return None if percent != percent else percent / 100


def _ns(us: Any) -> int | None:
    return None if us != us else round(float(us) * NS_PER_US)


if __name__ == "__main__":
    os.environ["HTA_DISABLE_NS_ROUNDING"] = sys.argv[1]
    paths = sys.argv[2:]
    serve(lambda place: figures(paths[place]))
