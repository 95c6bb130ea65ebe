"""A profiler's trace as a trace of labkit: streams are lanes, launches are submits, synchronisations are waits.

    runtime call (launch, copy)   ──correlation──►  op on the lane of its stream; submitted when the call began, queued when it returned
    stream, device, event sync    ──►  a wait of the host, for the op that ended last of those it waited for
    stream waits for an event     ──►  the next op of that stream depends on the last one before the event was recorded
    ProfilerStep#n                ──►  the step of what is launched inside; the op that ends last completes it (one item)

Calls of several threads are one program, in order of time: in training they alternate. Without any device work the file is a CPU's: the
outermost ops of the thread that has most of them are the host's own, those of other threads are lanes.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import TraceError
from labkit.schedule import Status
from labkit.trace.kineto.events import CALLS, DEVICE_WORK, Event, Events, read_events
from labkit.trace.kineto.streams import Streams
from labkit.trace.kineto.waits import Waits
from labkit.trace.recorder import Recorder, Row
from labkit.trace.trace import KIND_OP, KIND_WAIT, Trace

NAME_CHARACTERS = 60


@dataclass(frozen=True)
class Imported:
    """A trace, and what became of the file's events: words for people."""

    trace: Trace
    notes: tuple[str, ...]


def read_kineto(path: str | Path) -> Imported:
    """Read a trace of PyTorch's profiler (.json, .json.gz; CUDA, ROCm or CPU). Raises TraceError where nothing can be made of it."""
    read = read_events(Path(path))
    work = [event for event in read.events if event.category in DEVICE_WORK]
    made = _of_device(read, work) if work else _of_cpu(read)
    made.recorder.meta |= {
        "measured": True,
        "device": "imported",
        "device_label": f"{read.device or ('a GPU' if work else 'CPU')} (imported trace)",
        "source": Path(path).name,
        "rank": read.rank,
    }
    made.notes.update({f"events with {why}, dropped": count for why, count in read.dropped.items()})
    return Imported(made.recorder.finish(made.end_ns), tuple(f"{count:,} {words}" for words, count in made.notes.items() if count))


@dataclass
class _Made:
    recorder: Recorder
    end_ns: int
    notes: Counter[str]


# ---- with a GPU -------------------------------------------------------------------------------------------


def _of_device(read: Events, work: list[Event]) -> _Made:
    notes: Counter[str] = Counter()
    calls = [event for event in read.events if event.category in CALLS]
    steps = _Steps(read.events)
    streams = Streams(work, notes)
    launch_of = {event.args.get("correlation"): event for event in calls if event.args.get("correlation") is not None}
    launches = [launch_of.get(event.args.get("correlation")) for event in streams.work]
    notes["ops whose launch is not in the file: taken to be launched when they began"] += launches.count(None)
    waits = Waits(read.events, calls, streams.work, launches)
    verbs = [(_begun(event, launch), 0, place) for place, (event, launch) in enumerate(zip(streams.work, launches, strict=True))]
    verbs += [(wait.start_ns, 1, place) for place, wait in enumerate(waits.waits)]
    last_of_step = steps.last_ops(streams.work, [begun for begun, sort, _ in verbs if sort == 0])
    recorder, ids, host_ns = Recorder(len(verbs) + 1), {}, 0
    for op, (begun_ns, sort, place) in enumerate(sorted(verbs)):
        begun_ns = max(begun_ns, host_ns)
        if sort == 0:
            event, launch = streams.work[place], launches[place]
            ids[place] = op
            left_ns = max(begun_ns, min(launch.end_ns, waits.next_start(launch)) if launch is not None else begun_ns)
            host_ns = begun_ns if launch is None else left_ns
            deps = tuple(sorted({ids[need] for need in waits.needs.get(place, ()) if need in ids}))
            step = steps.of(_begun(event, launch))
            recorder.append(_row(op, KIND_OP, event, streams.lanes[place], streams.units[place], step, place in last_of_step, begun_ns, left_ns, deps))
        else:
            wait = waits.waits[place]
            awaited = ids.get(wait.awaited)
            ended_ns = max(wait.end_ns, begun_ns + 1)
            if awaited is None or wait.end_ns <= begun_ns:
                notes["synchronisations of nothing that is in the file: time of the host's own program"] += 1
                continue
            host_ns = ended_ns
            row = Row(op, KIND_WAIT, "wait", "host", 0, steps.of(begun_ns), 0, begun_ns, begun_ns, begun_ns, ended_ns, 0, 0, awaited, Status.OK, (awaited,))
            recorder.append(row)
    end_ns = max(row[10] for row in recorder.rows) + 1
    for lane, unit in sorted({("host", 0), *zip(streams.lanes, streams.units, strict=True)}):
        recorder.open_unit(lane, unit, 0)
    return _Made(recorder, end_ns, notes)


def _begun(event: Event, launch: Event | None) -> int:
    return min(launch.start_ns, event.start_ns) if launch is not None else event.start_ns


def _row(op: int, kind: int, event: Event, lane: str, unit: int, step: int, completes: bool, submit_ns: int, queued_ns: int, deps: tuple[int, ...]) -> Row:
    size = event.args.get("bytes", event.args.get("size", 0))
    moved = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else 0
    return Row(op, kind, short(event.name), lane, unit, step, int(completes), submit_ns, queued_ns, event.start_ns, event.end_ns, 0, moved, -1, Status.OK, deps)


class _Steps:
    """The profiler's steps, as intervals of the host's time."""

    def __init__(self, events: list[Event]):
        named: dict[str, Event] = {}
        for event in events:
            if event.category == "user_annotation" and event.name.startswith("ProfilerStep#"):
                named.setdefault(event.name, event)
        self._spans = sorted((event.start_ns, event.end_ns) for event in named.values())

    def of(self, time_ns: int) -> int:
        """The step at an instant, counted from 0; −1 between steps."""
        for step, (start_ns, end_ns) in enumerate(self._spans):
            if start_ns <= time_ns < end_ns:
                return step
        return -1

    def last_ops(self, work: list[Event], begun_ns: list[int]) -> set[int]:
        """The op of each step that ends last."""
        last: dict[int, int] = {}
        for place, (event, begun) in enumerate(zip(work, begun_ns, strict=True)):
            step = self.of(begun)
            if step >= 0 and (step not in last or event.end_ns >= work[last[step]].end_ns):
                last[step] = place
        return set(last.values())


# ---- on a CPU alone ---------------------------------------------------------------------------------------


def _of_cpu(read: Events) -> _Made:
    notes: Counter[str] = Counter()
    threads: dict[tuple[Any, Any], list[Event]] = {}
    for event in read.events:
        if event.category in ("cpu_op", "operator"):
            threads.setdefault((event.pid, event.tid), []).append(event)
    if not threads:
        raise TraceError("the file has no kernel and no op in it: there is nothing to import")
    order = sorted(threads, key=lambda thread: (-len(threads[thread]), str(thread)))
    steps, rows = _Steps(read.events), []
    for unit, thread in enumerate(order):
        outer = _outermost(threads[thread])
        notes["ops inside another op: counted as part of it"] += len(threads[thread]) - len(outer)
        rows += [(event, "host" if unit == 0 else "workers", max(unit - 1, 0)) for event in outer]
    rows.sort(key=lambda each: each[0].start_ns)
    last = steps.last_ops([event for event, *_ in rows], [event.start_ns for event, *_ in rows])
    recorder = Recorder(len(rows) + 1)
    for op, (event, lane, unit) in enumerate(rows):
        recorder.append(_row(op, KIND_OP, event, lane, unit, steps.of(event.start_ns), op in last, event.start_ns, event.start_ns, ()))
    for lane, unit in sorted({("host", 0), *((lane, unit) for _, lane, unit in rows)}):
        recorder.open_unit(lane, unit, 0)
    return _Made(recorder, max(event.end_ns for event, *_ in rows) + 1, notes)


def _outermost(events: list[Event]) -> list[Event]:
    """The ops of one thread that lie in no other, cut where they overlap."""
    outer: list[Event] = []
    for event in sorted(events, key=lambda each: (each.start_ns, -each.end_ns)):
        if not outer or event.start_ns >= outer[-1].end_ns:
            outer.append(event)
    return outer


def short(name: str) -> str:
    """A kernel's name without its template arguments and parameters: `at::native::elementwise_kernel`."""
    text = name.removeprefix("void ").strip().replace("(anonymous namespace)::", "")
    if text.startswith(("Memcpy", "Memset")):
        return text[:NAME_CHARACTERS]
    cut = min((place for place in (text.find("<"), text.find("(", 1)) if place > 0), default=len(text))
    head = text[:cut]
    return head if len(head) <= NAME_CHARACTERS else f"{head[: NAME_CHARACTERS - 1]}…"
