"""The bottleneck in one sentence: what holds the run back, for somebody who has not read the numbers yet."""

from collections.abc import Mapping

from labkit.metrics.bound import busiest_lane
from labkit.metrics.cause import Cause
from labkit.metrics.gpu_idle import LAUNCH_GAP_NS, GpuTime
from labkit.metrics.metric import Metric
from labkit.metrics.overlap import role_of
from labkit.metrics.stalls import in_words
from labkit.metrics.unit_slices import HOST
from labkit.units import format_percent, format_time

SATURATED = 0.7
APART = 0.1
MOSTLY = 0.5
UNTOLD = 0.3

_WHAT = {
    "workers": "loading",
    "h2d": "copying to the device",
    "d2h": "copying to the host",
    "disk": "reading from disk",
    "net": "the network",
}
_PROGRAM = "the host program"


def bottleneck(
    causes: Mapping[str, Mapping[Cause, float]], utilization: Mapping[str, Metric], overlapped: Metric, occupied: Mapping[str, float]
) -> str:
    """What holds the run back. The same numbers always give the same sentence.

    causes    lane → what it waited for, as shares of its time (`waits_by_cause`)
    occupied  lane → share of the time that any of its units was busy
    A lane that is busy 70 % of the time or more is called the bottleneck if it is the busiest; so is one of several
    units of which some are always busy and the others have nothing to do. Lanes that are busy together for less
    than 10 % of their time do not overlap.
    """
    lane = busiest_lane(utilization)
    host = utilization[HOST].value or 0.0 if HOST in utilization else 0.0
    if lane is None:
        return f"{_PROGRAM} is the bottleneck: nothing else ran." if host >= SATURATED else "nothing ran."
    share = utilization[lane].value or 0.0
    if host >= SATURATED and host > share:
        return f"{_PROGRAM} is the bottleneck: busy {format_percent(host)} of the time; {lane} waits for it."
    if share < SATURATED and occupied.get(lane, 0.0) > 1 - APART:
        return _unemployed(lane, share)
    apart = overlapped.value is not None and overlapped.n > 1 and overlapped.value < APART
    if apart and share < 1 - APART:
        busiest = f"{lane}, {format_percent(share)}"
        return f"nothing overlaps: each lane waits for the one before it (busiest: {busiest})."
    if share >= SATURATED:
        return _saturated(lane, share, causes)
    busiest = f"{lane}, the busiest, is busy {format_percent(share)} of the time"
    return f"no lane is saturated: {busiest}{_mostly(causes[lane])}."


def gpu_bottleneck(time: GpuTime, host_busy: float | None = None) -> str:
    """What holds a GPU back whose ops are known one by one, as in a profiler's trace. The same numbers always give the same sentence.

    host_busy  busy share of the host; None where its waits are not known

    The GPU is the bottleneck where it runs something, or launched ops wait for it, 70 % of the time or more; the host, where the GPU is idle
    and nothing is launched half of the time or more. Where 30 % of the time lies before ops whose launches are not known, nobody can tell.
    """
    running, waiting, starved, launching, untold = (
        time.share(ns) for ns in (time.running_ns, time.waiting_ns, time.starved_ns, time.launch_ns, time.untold_ns)
    )
    queued = time.queued_ns is not None and time.queued_ns > LAUNCH_GAP_NS
    in_queue = f"kernels wait {format_time(time.queued_ns)} in its queue (median)" if queued and time.queued_ns is not None else ""
    talking = ", most of it communication alone" if time.talking_ns > MOSTLY * time.running_ns else ""
    if running >= SATURATED:
        return f"the GPU is the bottleneck: it runs something for {format_percent(running)} of the time{talking}{in_queue and f'; {in_queue}'}."
    if untold >= UNTOLD:
        unknown = f"the launches of {format_percent(1 - time.launches)} of the GPU's ops are not in the file"
        return f"what holds it back cannot be told: {unknown}; the GPU runs something for {format_percent(running)} of the time."
    if running + waiting >= SATURATED and queued:
        idle = f"for {format_percent(waiting)} of the time none runs all the same, and the file does not say what they wait for"
        return f"the GPU's side is the bottleneck, not the host: {in_queue}; it runs something for {format_percent(running)} of the time{talking}; {idle}."
    if starved >= MOSTLY:
        return f"host-bound: for {format_percent(starved)} of the time the GPU is idle and its queue is empty; {_host_then(host_busy)}."
    if launching >= MOSTLY:
        return f"launches are the bottleneck: for {format_percent(launching)} of the time the GPU is idle between a launch and its start."
    idle = f"idle with an empty queue for {format_percent(starved)} and with launched kernels waiting for {format_percent(waiting + launching)}"
    return f"no single bottleneck: the GPU runs something for {format_percent(running)} of the time{talking}, is {idle}."


def cpu_bottleneck(ops: Mapping[str, float]) -> str:
    """What a profiler's trace without any GPU is made of. `ops`: name → share of the time that the ops of the main thread took."""
    if not ops:
        return "no GPU in the file, and no op on its main thread."
    largest = max(ops, key=lambda name: (ops[name], name))
    whole = sum(ops.values())
    around = "the program around them, or what it waited for, has the rest"
    return f"no GPU in the file: ops take {format_percent(whole)} of the main thread's time, '{largest}' the most ({format_percent(ops[largest])}); {around}."


def _host_then(busy: float | None) -> str:
    if busy is None:
        return "whether the host works or waits then is not in the file"
    return f"the host waits for the GPU for {format_percent(1 - busy)} of the time"


def _unemployed(lane: str, share: float) -> str:
    it_is = f"{_WHAT.get(role_of(lane), lane)} is the bottleneck"
    whose = "the workers are" if role_of(lane) == "workers" else f"the units of {lane} are"
    return f"{it_is}, yet {whose} busy {format_percent(share)} of their time: too little is in flight to employ them all."


def _saturated(lane: str, share: float, causes: Mapping[str, Mapping[Cause, float]]) -> str:
    others = [other for other in causes if other not in (lane, HOST)]
    it_is = f"{_WHAT.get(role_of(lane), lane)} is the bottleneck"
    busy = f"{it_is}: busy {format_percent(share)} of the time"
    if role_of(lane) == "compute" or "compute" not in causes:
        waiting = "the workers wait for it" if "workers" in others else "the other lanes wait for it"
        return f"{busy}; {waiting}." if others else f"{busy}."
    behind: dict[str, float] = {}
    for cause, part in causes["compute"].items():
        if cause.behind_lane == lane:
            behind[cause.behind] = behind.get(cause.behind, 0.0) + part
    if not behind:
        return f"{busy}."
    op = max(behind, key=lambda name: (behind[name], name))
    return f"{it_is}: compute waited {format_percent(behind[op])} of the time for '{op}'."


def _mostly(causes: Mapping[Cause, float]) -> str:
    """The largest cause of waiting."""
    for words, share in in_words(causes).items():
        return f"; otherwise mostly {words} ({format_percent(share)})"
    return ""
