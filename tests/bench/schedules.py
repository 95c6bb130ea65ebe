"""Schedules: a host program written down, verb by verb, with the price of each. Random ones, and that of a real kernel.

A schedule names no labkit type in its verbs, so the SimPy reference reads the same text that the simulated device runs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from labkit.device.machine import Figure, Machine
from labkit.device.simulated import SimulatedDevice
from labkit.schedule import Cost, Handle, Lane, Op
from labkit.trace import Trace

SUBMIT_NS, LAUNCH_NS = 900, 350
LANES = ("host", "workers", "h2d", "compute", "compute1", "d2h", "disk")
THREADS = frozenset({"workers", "disk"})


class Submit(NamedTuple):
    """Put an op on a lane: the host is held for `host_ns`, the op takes `duration_ns` once it may start.

    deps         numbers of earlier ops, counted from 0 in the order of submission
    dispatch_ns  from being ready to its start
    blocking     the host waits for its end before the next verb
    """

    lane: str
    host_ns: int
    dispatch_ns: int
    duration_ns: int
    deps: tuple[int, ...]
    blocking: bool = False


class Wait(NamedTuple):
    """Hold the host until one of `ops` has ended, or for `at_most_ns`; None is for ever."""

    ops: tuple[int, ...]
    at_most_ns: int | None = None


@dataclass(frozen=True)
class Schedule:
    """A host program. `wake_ns` is the time from an op's end to the host, which waited for it, running again."""

    widths: dict[str, int]
    wake_ns: int
    dispatch_ns: int
    verbs: tuple[Submit | Wait, ...]

    @property
    def op_count(self) -> int:
        """How many ops it submits; waits are not counted."""
        return sum(type(verb) is Submit for verb in self.verbs)


class Event(NamedTuple):
    """What became of one verb: when the host entered and left it, and when its op ran (a wait: the host waited)."""

    submit_ns: int
    queued_ns: int
    start_ns: int
    end_ns: int


def random_schedule(seed: int) -> Schedule:
    """A program of 20 to 120 verbs over up to seven lanes, with ties, blocking ops, host ops, joins and deadlines."""
    random = Random(seed)
    widths = {lane: random.choice((1, 1, 2, 3)) for lane in THREADS}
    dispatch_ns, wake_ns = random.choice((0, 0, 70, 5_000)), random.choice((0, 0, 40, 9_000))
    grain = random.choice((1, 100, 1_000))  # a coarse grain makes ops end at the same instant
    verbs: list[Submit | Wait] = []
    ops = 0
    for _ in range(random.randint(20, 120)):
        if ops and random.random() < 0.3:
            verbs.append(_random_wait(random, ops))
            continue
        lane = random.choice(LANES)
        known = range(max(ops - 12, 0), ops)
        deps = tuple(random.sample(known, min(random.choice((0, 0, 1, 1, 2, 3)), len(known))))
        duration = max(random.randint(1, 40_000) // grain * grain, 1)
        verbs.append(_priced(lane, dispatch_ns, duration, deps, lane != "host" and random.random() < 0.1))
        ops += 1
    return Schedule(widths, wake_ns, dispatch_ns, tuple(verbs))


def _random_wait(random: Random, ops: int) -> Wait:
    known = range(max(ops - 15, 0), ops)
    awaited = tuple(random.sample(known, min(random.randint(0, 3), len(known))))
    if awaited and random.random() < 0.6:
        return Wait(awaited)
    return Wait(awaited, random.randint(0, 30_000))


def _priced(lane: str, dispatch_ns: int, duration_ns: int, deps: tuple[int, ...], blocking: bool) -> Submit:
    """The host's price by lane: nothing for its own ops, a submit for threads, a submit and a launch for streams."""
    if lane == "host":
        return Submit(lane, 1, 0, duration_ns, deps)
    if lane in THREADS:
        return Submit(lane, SUBMIT_NS, dispatch_ns, duration_ns, deps, blocking)
    return Submit(lane, SUBMIT_NS + LAUNCH_NS, 0, duration_ns, deps, blocking)


def machine_for(wake_ns: int, dispatch_ns: int) -> Machine:
    """A machine on which an op takes its `fixed_ns`, and the overheads are the schedule's."""
    figures = {
        "gpu_flop_per_s": 1e12,
        "gpu_fp32_flop_per_s": 1e12,
        "gpu_flop_share": 1,
        "hbm_bytes_per_s": 1e12,
        "hbm_share": 1,
        "gpu_min_kernel_ns": 0,
        "link_h2d_bytes_per_s": 1e12,
        "link_d2h_bytes_per_s": 1e12,
        "link_pageable_bytes_per_s": 1e12,
        "submit_ns": SUBMIT_NS,
        "launch_ns": LAUNCH_NS,
        "wake_ns": wake_ns,
        "dispatch_ns": dispatch_ns,
    }
    return Machine("round", "a machine of round figures", "cuda", {name: Figure(value, "chosen") for name, value in figures.items()})


def simulate(schedule: Schedule) -> tuple[Trace, list[tuple[int, ...]]]:
    """Run a schedule on labkit's simulated device: its trace, and which ops each wait found ended."""
    device = SimulatedDevice(machine_for(schedule.wake_ns, schedule.dispatch_ns), widths=schedule.widths)
    handles: list[Handle] = []
    numbers: dict[int, int] = {}
    found: list[tuple[int, ...]] = []
    for verb in schedule.verbs:
        if type(verb) is Submit:
            op = Op(f"op on {verb.lane}", _lane(verb.lane), _never, Cost(fixed_ns=verb.duration_ns), blocking=verb.blocking)
            handles.append(device.submit(op, after=[handles[dep] for dep in verb.deps]))
            numbers[handles[-1].id] = len(handles) - 1
        else:
            until = None if verb.at_most_ns is None else device.now() + verb.at_most_ns
            done = device.wait([handles[op] for op in verb.ops], until=until)
            found.append(tuple(sorted(numbers[handle.id] for handle in done)))
    device.close()
    return device.recorder.finish(device.now()), found


def events_of(trace: Trace) -> list[Event]:
    """The events of a trace in program order."""
    columns = [trace[name].tolist() for name in Event._fields]
    return [Event(*row) for row in zip(*columns, strict=True)]


class Scribe:
    """A device that runs a kernel on a simulated one and writes the kernel's verbs down as a schedule."""

    def __init__(self, device: SimulatedDevice):
        self._device = device
        self._numbers: dict[int, int] = {}
        self.verbs: list[Submit | Wait] = []

    def now(self) -> int:
        """The simulated device's time."""
        return self._device.now()

    def submit(self, op: Op, *args: Any, after: Iterable[Handle] = ()) -> Handle:
        """As the device's; written down."""
        after = tuple(after)
        deps = [*(item for item in args if type(item) is Handle), *after]
        handle = self._device.submit(op, *args, after=after)
        dispatch_ns = int(self._device.machine["dispatch_ns"])
        numbers = tuple(self._numbers[dep.id] for dep in deps)
        self.verbs.append(_priced(str(op.lane), dispatch_ns, op.cost.fixed_ns, numbers, op.blocking))
        self._numbers[handle.id] = len(self._numbers)
        return handle

    def wait(self, handles: list[Handle], until: int | None = None, how: str = "block") -> list[Handle]:
        """As the device's; written down."""
        at_most = None if until is None else until - self.now()
        self.verbs.append(Wait(tuple(self._numbers[handle.id] for handle in handles), at_most))
        return self._device.wait(handles, until, how)


def written_down(kernel: Callable[[Any], None], widths: dict[str, int], wake_ns: int, dispatch_ns: int) -> tuple[Schedule, Trace]:
    """Run a kernel on a simulated device: its schedule and its trace."""
    device = SimulatedDevice(machine_for(wake_ns, dispatch_ns), widths=widths)
    scribe = Scribe(device)
    kernel(scribe)
    device.close()
    return Schedule(widths, wake_ns, dispatch_ns, tuple(scribe.verbs)), device.recorder.finish(device.now())


def _lane(name: str) -> Lane:
    role = name.rstrip("0123456789")
    return Lane(role, int(name[len(role) :] or 0))


def _never() -> None:
    raise AssertionError("a simulated op ran")
