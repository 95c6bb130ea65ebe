"""A profiler's file without any work of a device: the ops of the CPU, each thread a lane.

The outermost ops of the thread that has most of them are the host's own. Those of another thread ran on its lane, `workers1` and on; the
file does not say who handed them over, or when: they count as submitted when they began, or, if the host was inside an op of its own then,
just before that one.
"""

from bisect import bisect_right
from collections import Counter
from typing import Any

from labkit.errors import TraceError
from labkit.trace.kineto.events import Event, Events
from labkit.trace.kineto.rows import Made, finished, op_row
from labkit.trace.kineto.steps import Steps
from labkit.trace.recorder import Recorder
from labkit.trace.trace import HOST

INSIDE = "ops inside another op: counted as part of it"


def of_cpu(read: Events, steps: Steps) -> Made:
    """What a CPU's file is made into. Raises TraceError where it has no op."""
    notes: Counter[str] = Counter()
    threads: dict[tuple[Any, Any], list[Event]] = {}
    for event in read.events:
        if event.category in ("cpu_op", "operator"):
            threads.setdefault((event.pid, event.tid), []).append(event)
    if not threads:
        raise TraceError("the file has no kernel and no op in it: there is nothing to import")
    order = sorted(threads, key=lambda thread: (-len(threads[thread]), str(thread)))
    outer = [_outermost(threads[thread]) for thread in order]
    notes[INSIDE] += sum(map(len, threads.values())) - sum(map(len, outer))
    lanes = [HOST, *(f"workers{number}" for number in range(1, len(order)))]
    host_starts = [event.start_ns for event in outer[0]]
    rows = [(_submitted(event, outer[0], host_starts), lane == HOST, number, lane, event)
            for lane, events in zip(lanes, outer, strict=True) for number, event in enumerate(events)]  # fmt: skip
    rows.sort(key=lambda row: row[:4])
    last = steps.last_ops([event for *_, event in rows], [event.start_ns for *_, event in rows])
    recorder = Recorder(len(rows) + 1)
    for op, (submit_ns, _, _, lane, event) in enumerate(rows):
        recorder.append(op_row(op, event, (lane, 0), steps.of(event.start_ns), op in last, (submit_ns, submit_ns)))
    return finished(recorder, [(lane, 0) for lane in lanes], notes, steps.begun_ns(rows[0][0]), told=False)


def _submitted(event: Event, host: list[Event], host_starts: list[int]) -> int:
    """When an op counts as submitted: the host cannot do so in the midst of an op of its own."""
    place = bisect_right(host_starts, event.start_ns) - 1
    return host[place].start_ns if place >= 0 and event.start_ns < host[place].end_ns else event.start_ns


def _outermost(events: list[Event]) -> list[Event]:
    """The ops of one thread that begin in no other."""
    outer: list[Event] = []
    for event in sorted(events, key=lambda each: (each.start_ns, -each.end_ns)):
        if not outer or event.start_ns >= outer[-1].end_ns:
            outer.append(event)
    return outer
