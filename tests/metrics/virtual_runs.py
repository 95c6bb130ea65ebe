"""Runs on the virtual clock: a toy machine, ops of stated length, a small pipeline, random host programs."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from hypothesis import strategies as st

from labkit.device.device import Device
from labkit.device.machine import Figure, Machine
from labkit.device.simulated import SimulatedDevice
from labkit.schedule import Cost, Lane, Op
from labkit.trace import Trace

LANES = ("workers", "h2d", "compute", "d2h", "compute1")


def machine(**figures: float) -> Machine:
    """A CPU machine on which ops take their fixed time, without overheads unless stated."""
    known = {"link_h2d_bytes_per_s": 1e9, "link_d2h_bytes_per_s": 1e9, **figures}
    return Machine("toy", "toy", "cpu", {name: Figure(value, "test") for name, value in known.items()})


def op(name: str, lane: str, ns: int = 1, step: int = -1, items: int = 0, **more: Any) -> Op:
    """An op that takes `ns` on its lane, `compute1` being the second lane of its role."""
    where = Lane("compute", 1) if lane == "compute1" else Lane(lane)
    return Op(name, where, lambda *_: None, Cost(fixed_ns=ns), step, items, **more)


def run(
    program: Callable[[SimulatedDevice], None],
    widths: dict[str, int] | None = None,
    on: Machine | None = None,
) -> Trace:
    """The trace of a host program on the simulated device."""
    device = SimulatedDevice(on or machine(), widths=widths)
    program(device)
    device.close()
    return device.recorder.finish(device.now())


def pipeline(
    device: Device,
    steps: int,
    prefetch: int,
    decode: int = 1000,
    copy: int = 100,
    forward: int = 300,
    update: int = 600,
) -> None:
    """decode → copy → forward → update, `prefetch` batches ahead; 32 items a step."""
    loading: deque[tuple[int, Any]] = deque()
    running: deque[Any] = deque()

    def train() -> None:
        step, loaded = loading.popleft()
        copied = device.submit(op("copy", "h2d", copy, step), loaded)
        loss = device.submit(op("forward", "compute", forward, step), copied)
        running.append(device.submit(op("update", "compute", update, step, items=32), loss))

    for step in range(steps):
        loading.append((step, device.submit(op("decode", "workers", decode, step))))
        while len(loading) > prefetch:
            train()
        while len(running) > min(1, prefetch):
            device.wait([running.popleft()])
    while loading:
        train()
    while running:
        device.wait([running.popleft()])


@dataclass(frozen=True)
class Act:
    """One thing that a random host program does. `picks` choose among the latest handles."""

    kind: str  # "submit", "wait", "resize", "cancel"
    lane: str = "compute"
    ns: int = 1
    picks: tuple[int, ...] = ()
    fails: bool = False
    blocking: bool = False
    until: int | None = None
    width: int = 1


@dataclass(frozen=True)
class Schedule:
    """A random host program, and what it runs on."""

    acts: tuple[Act, ...]
    widths: dict[str, int]
    figures: dict[str, float]

    def trace(self, factors: dict[str, int] | None = None, widths: dict[str, int] | None = None) -> Trace:
        """What it leaves on the simulated device, some lanes slower by a factor, some of another width."""
        play = partial(self.play, factors=factors or {})
        return run(play, {**self.widths, **(widths or {})}, machine(**self.figures))

    def play(self, device: SimulatedDevice, factors: dict[str, int]) -> None:
        handles: list[Any] = []
        for number, act in enumerate(self.acts):
            picked = [handles[-1 - pick] for pick in act.picks if pick < len(handles)]
            if act.kind == "submit":
                name, ns = f"{act.lane} {number % 3}", act.ns * factors.get(act.lane, 1)
                value = RuntimeError("broken") if act.fails else None
                one = op(name, act.lane, ns, number, number % 2, blocking=act.blocking, simulated_value=value)
                handles.append(device.submit(one, *picked))
            elif act.kind == "wait" and (picked or act.until is not None):
                device.wait(picked, None if act.until is None else device.now() + act.until)
            elif act.kind == "resize":
                device.resize(act.lane, act.width)
            elif act.kind == "cancel":
                device.cancel()


def schedules(*, lags: bool = True, plain: bool = False) -> st.SearchStrategy[Schedule]:
    """Random host programs over every kind of lane: inline and blocking ops, waits for one or several.

    lags   ops start later than they might: the machine is slow to start them or short of cores, units are
           held by ops that are cancelled before they run
    plain  without what ties a program to its times: failures, deadlines, cancels, lanes that change their
           width
    A shorter program of the same seed is the beginning of a longer one, so failures shrink.
    """
    return st.builds(
        random_schedule, st.integers(0, 2**32), st.integers(1, 120), st.just(lags), st.just(plain)
    )


def random_schedule(seed: int, length: int, lags: bool = True, plain: bool = False) -> Schedule:
    """The random host program of a seed."""
    random = Random(seed)
    figures = {"submit_ns": random.choice((0, 1, 30)), "wake_ns": 0, "dispatch_ns": 0}
    if lags:
        figures |= {"wake_ns": random.choice((0, 7, 40)), "dispatch_ns": random.choice((0, 3, 50))}
        figures |= {"cores": random.randint(1, 6)} if random.random() < 0.2 else {}
    widths = {role: random.choice((1, 1, 2, 4)) for role in ("workers", "h2d", "compute", "d2h")}
    cancel_at = random.randint(1, 400) if lags and not plain else None
    acts = [Act("cancel") if place == cancel_at else _random_act(random, plain) for place in range(length)]
    return Schedule(tuple(acts), widths, figures)


def _random_act(random: Random, plain: bool) -> Act:
    picks = tuple(random.sample(range(8), random.choice((0, 1, 1, 2, 3, 4))))
    kind = random.choices(("submit", "wait", "resize"), (10, 3, 0 if plain else 0.5))[0]
    if kind == "submit":
        lane, ns = random.choice((*LANES, *LANES, "host")), random.choice((1, 20, 100, 400))
        fails = not plain and random.random() < 0.03
        return Act(kind, lane, ns, picks, fails, blocking=random.random() < 0.1)
    if kind == "wait":
        return Act(kind, picks=picks, until=None if plain else random.choice((None, None, -50, 10, 500)))
    return Act(kind, random.choice(("workers", "compute", "h2d")), width=random.randint(1, 4))
