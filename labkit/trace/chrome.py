"""A trace as strict Chrome/Perfetto JSON: one thread a lane unit, one arrow a dependency, one instant a toggle.

The format: "Trace Event Format", Google, 2016. Times are microseconds; a thread id of 0 is lost by viewers,
so threads count from 1; slices of one thread must nest, which one unit of a lane does by construction.
"""

import json
from pathlib import Path
from typing import Any

from labkit.schedule import Status
from labkit.trace.trace import KIND_WAIT, RowIndex, Trace
from labkit.units import NS_PER_US


def chrome_events(trace: Trace) -> list[dict[str, Any]]:
    """The events: metadata, complete slices, flow arrows between lanes, and marks."""
    threads = {(span.lane, span.unit): number for number, span in enumerate(trace.units, start=1)}
    device = str(trace.meta.get("device_label", trace.meta.get("device", "labkit")))
    events: list[dict[str, Any]] = [_named("process_name", 0, device)]
    for (lane, unit), thread in threads.items():
        events.append(_named("thread_name", thread, lane if unit == 0 else f"{lane} {unit}"))
    events += [_slice(trace, row, threads) for row in range(len(trace)) if trace["start_ns"][row] >= 0]
    events += _arrows(trace, threads)
    for mark in trace.marks:
        name = f"{mark.knob}: {mark.old} → {mark.new}"
        events.append({"ph": "i", "s": "g", "name": name, "pid": 1, "tid": 1, "ts": mark.time_ns / NS_PER_US})
    return events


def write_chrome(trace: Trace, path: Path) -> None:
    """Write the JSON file. Raises ValueError if a number is not finite (none can be), OSError where the disk does."""
    whole = {"traceEvents": chrome_events(trace), "displayTimeUnit": "ms", "otherData": _text(trace.meta)}
    path.write_text(json.dumps(whole, allow_nan=False), encoding="utf-8")


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 1, "tid": thread, "args": {"name": name}}


def _slice(trace: Trace, row: int, threads: dict[tuple[str, int], int]) -> dict[str, Any]:
    start, end = int(trace["start_ns"][row]), int(trace["end_ns"][row])
    status = Status(int(trace["status"][row])).name.lower()
    return {
        "ph": "X",
        "name": trace.name_of(row),
        "cat": "wait" if trace["kind"][row] == KIND_WAIT else "op",
        "pid": 1,
        "tid": threads.get((trace.lane_of(row), int(trace["unit"][row])), 1),
        "ts": start / NS_PER_US,
        "dur": (end - start) / NS_PER_US,
        "args": {"op": int(trace["op"][row]), "step": int(trace["step"][row]), "status": status},
    }


def _arrows(trace: Trace, threads: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
    """A flow arrow for each dependency that crosses from one lane to another."""
    index = RowIndex(trace)
    arrows: list[dict[str, Any]] = []
    for row in range(len(trace)):
        if trace["kind"][row] == KIND_WAIT or trace["start_ns"][row] < 0:
            continue
        for source in index.rows(trace.deps(row)).tolist():
            if source < 0 or trace["lane"][source] == trace["lane"][row] or trace["start_ns"][source] < 0:
                continue
            flow = {"cat": "dep", "name": "dep", "id": len(arrows) + 1, "pid": 1}
            ends = ((source, "s", "end_ns", {}), (row, "f", "start_ns", {"bp": "e"}))
            for at, phase, column, more in ends:
                thread = threads.get((trace.lane_of(at), int(trace["unit"][at])), 1)
                arrows.append({**flow, "ph": phase, "tid": thread, "ts": int(trace[column][at]) / NS_PER_US, **more})
    return arrows


def _text(meta: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in meta.items()}
