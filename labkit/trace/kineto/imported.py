"""A profiler's trace as a trace of labkit: streams are lanes, launches are submits, synchronisations are waits.

    runtime call (launch, copy)   ──correlation──►  op on the lane of its stream; submitted when the call began, queued when it returned
    stream, device, event sync    ──►  a wait of the host, for the op that ended last of those it waited for
    stream waits for an event     ──►  the next op of that stream depends on the last one before the event was recorded
    ProfilerStep#n                ──►  the step of what is launched inside; the op that ends last completes it (one item)

Calls of several threads are one program (`verbs.py`). Without any device work the file is a CPU's (`cpu.py`).
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from labkit.schedule import Status
from labkit.trace.kineto.cpu import of_cpu
from labkit.trace.kineto.events import CALLS, DEVICE_WORK, Event, Events, read_events
from labkit.trace.kineto.rows import Made, finished, op_row
from labkit.trace.kineto.steps import Steps
from labkit.trace.kineto.streams import Streams
from labkit.trace.kineto.verbs import Verb, one_program
from labkit.trace.kineto.waits import Waits
from labkit.trace.recorder import Recorder, Row
from labkit.trace.trace import KIND_WAIT, Trace


@dataclass(frozen=True)
class Imported:
    """A trace, and what became of the file's events: words for people."""

    trace: Trace
    notes: tuple[str, ...]


def read_kineto(path: str | Path) -> Imported:
    """Read a trace of PyTorch's profiler (.json, .json.gz; CUDA, ROCm or CPU). Raises TraceError where nothing can be made of it."""
    read = read_events(Path(path))
    on_gpu = any(event.category in DEVICE_WORK for event in read.events)
    made = _of_device(read) if on_gpu else of_cpu(read, Steps(read.events))
    read.events.clear()  # the columns come next, and need not be held beside what they are made from
    made.notes.update({f"events with {why}, dropped": count for why, count in read.dropped.items() if "without it" not in why})
    made.notes.update({f"events with {why}": count for why, count in read.dropped.items() if "without it" in why})
    notes = tuple(f"{count:,} {words}" for words, count in made.notes.items() if count)
    made.recorder.meta |= {
        "measured": True,
        "device": "imported",
        "device_label": f"{read.device or ('a GPU' if on_gpu else 'CPU')} (imported trace)",
        "source": Path(path).name,
        "rank": read.rank,
        "host_waits_told": made.told,
        "notes": list(notes),
    }
    return Imported(made.recorder.finish(made.end_ns), notes)


def _of_device(read: Events) -> Made:
    notes: Counter[str] = Counter()
    calls = [event for event in read.events if event.category in CALLS]
    streams = Streams([event for event in read.events if event.category in DEVICE_WORK], notes)
    launch_of = {event.args["correlation"]: event for event in calls if "correlation" in event.args}
    launches = [launch_of.get(event.args.get("correlation")) for event in streams.work]
    notes["ops whose launch is not in the file: taken to be launched when they began"] += launches.count(None)
    waits = Waits(read.events, calls, streams.work, launches, notes)
    times = [_called(event, launch) for event, launch in zip(streams.work, launches, strict=True)]
    verbs = one_program(times, waits.waits, notes)
    steps = Steps(read.events)
    last_of_step = steps.last_ops(streams.work, [begun_ns for begun_ns, _ in times])
    recorder, ids = Recorder(len(verbs) + 1), [0] * len(streams.work)
    for op, verb in enumerate(verbs):
        if not verb.is_wait:
            ids[verb.place] = op
    for op, verb in enumerate(verbs):
        if verb.is_wait:
            recorder.append(_wait_row(op, verb, ids[waits.waits[verb.place].awaited], steps.of(verb.begun_ns), notes))
            continue
        deps = tuple(sorted(ids[need] for need in waits.needs.get(verb.place, ()) if ids[need] < op))
        lane, step = (streams.lanes[verb.place], streams.units[verb.place]), steps.of(times[verb.place][0])
        recorder.append(op_row(op, streams.work[verb.place], lane, step, verb.place in last_of_step, (verb.begun_ns, verb.left_ns), deps))
    open_ns = steps.begun_ns(verbs[0].begun_ns)
    return finished(recorder, {*zip(streams.lanes, streams.units, strict=True)}, notes, open_ns, waits.told)


def _called(event: Event, launch: Event | None) -> tuple[int, int]:
    """When the launch of an op began and returned; one that is not known took no time."""
    if launch is None:
        return event.start_ns, event.start_ns
    begun_ns = min(launch.start_ns, event.start_ns)
    return begun_ns, max(launch.end_ns, begun_ns)


def _wait_row(op: int, verb: Verb, awaited: int, step: int, notes: Counter[str]) -> Row:
    if awaited > op:  # launched by another thread while this one waited
        notes["synchronisations for an op that was launched later: told as a wait for a set time"] += 1
        awaited = -1
    deps = (awaited,) if awaited >= 0 else ()
    return Row(op, KIND_WAIT, "wait", "host", 0, step, 0, verb.begun_ns, verb.begun_ns, verb.begun_ns, verb.left_ns, 0, 0, awaited, Status.OK, deps)
