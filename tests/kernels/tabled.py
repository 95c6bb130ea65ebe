"""A table of blocks of known durations for the kernel of tiers: what lies in each buffer is checked by whoever reads it, before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from time import sleep
from typing import Any

import numpy as np

from labkit.device.cuda import STREAM_ROLES, CudaDevice
from labkit.experiments.tiers import TiersKnobs, widths
from labkit.kernels.tiers import tiers
from labkit.schedule import Cost, Handle, Lane, Op, Step
from labkit.trace import Recorder, Trace
from labkit.workloads.accesses import Accesses, Pattern, accesses_of
from labkit.workloads.blocks import Looked, Tier
from tests.device.fake_cuda import FakeCuda
from tests.kernels.conftest import open_cpu, open_simulated

US = 1000
LANES = {"read": Lane("disk"), "demote": Lane("d2h"), "look up": Lane("compute"), "answer": Lane("d2h", 1)}


Spot = tuple[Tier, int]
Takes = Callable[[str, float], None]


def asleep(role: str, seconds: float) -> None:
    """How time passes on threads."""
    sleep(seconds)


@cache
def asked_for(pattern: Pattern, stride: int, blocks: int, loop_blocks: int) -> Accesses:
    """The sequence of a pattern, made once for all tests."""
    return accesses_of(TiersKnobs(pattern=pattern, stride=stride, blocks=blocks, loop_blocks=loop_blocks))


class FakeTable:
    """Each op takes its given time in µs, by decree on the virtual clock and by sleeping on threads. On threads a buffer holds the number of the
    block that lies there, or nothing while it is written; reading another one is an error.

    takes      (lane role, seconds) → how an op passes its time on a measuring device
    looked_up  the blocks, over and over; None: what the knobs ask for
    fails      (op, how many times it works before it raises)
    """

    def __init__(self, looked_up: Sequence[int] | None = None, fails: tuple[str, int] | None = None, takes: Takes = asleep, **us: float):
        self._us = {"read": 100.0, "promote": 30.0, "demote": 20.0, "look up": 5.0, "answer": 2.0, **us}
        self._looked_up = None if looked_up is None else Accesses(looked_up)
        self._takes, self._fails, self._submitted = takes, fails, dict.fromkeys(self._us, 0)
        self._lying: dict[tuple[Tier, int], int | None] = {}
        self._desks: dict[int, int] = {}
        self.looked: list[Looked] = []
        self.moved: list[tuple[str, int]] = []
        self.come: list[int] = []
        self.wasted_blocks: list[int] = []
        self.places: dict[Tier, set[int]] = {Tier.DEVICE: set(), Tier.HOST: set()}
        self.most_places = {Tier.DEVICE: 0, Tier.HOST: 0}
        self.counted_from = -1
        self._uses: list[tuple[Spot, str, int, bool]] = []

    def count_from(self, step_index: int) -> None:
        self.counted_from = step_index

    def accesses(self, knobs: Any) -> Accesses:
        if self._looked_up is not None:
            return self._looked_up
        return asked_for(knobs.pattern, knobs.stride, knobs.blocks, knobs.loop_blocks)

    # ---- ops ----------------------------------------------------------------------------------------------

    def read(self, step: Step, block: int, place: int) -> Op:
        return self._moving(step, "read", block, None, (Tier.HOST, place))

    def promote(self, step: Step, block: int, source: Tier, host_place: int, place: int) -> Op:
        lane = Lane("h2d", 1 if source is Tier.DISK else 0)
        return self._moving(step, "promote", block, (Tier.HOST, host_place), (Tier.DEVICE, place))._replace(lane=lane)

    def demote(self, step: Step, block: int, place: int, host_place: int) -> Op:
        return self._moving(step, "demote", block, (Tier.DEVICE, place), (Tier.HOST, host_place))

    def look_up(self, step: Step, block: int, tier: Tier, place: int, desk: int) -> list[Op]:
        def take(half_s: float) -> int:
            return self._read_in("compute", (Tier.DEVICE, place), block, half_s)

        def bring(half_s: float, found: int) -> int:
            self._takes("d2h", half_s)
            self._desks[desk] = found
            return desk

        self._use((Tier.DEVICE, place), "look up", writes=False)
        return [self._op(step, "look up", take), self._op(step, "answer", bring, items=1)]

    def _moving(self, step: Step, name: str, block: int, source: Spot | None, target: Spot) -> Op:
        self.moved.append((name, block))
        role = {"read": "disk", "promote": "h2d", "demote": "d2h"}[name]
        self._use(target, name, writes=True)
        if source is not None:
            self._use(source, name, writes=False)

        def move(half_s: float) -> None:
            self._lying[target] = None
            if source is None:
                self._takes(role, 2 * half_s)
            else:
                self._read_in(role, source, block, half_s)
            self._lying[target] = block

        return self._op(step, name, move)

    def _use(self, spot: Spot, name: str, writes: bool) -> None:
        tier, place = spot
        self.places[tier].add(place)
        self.most_places[tier] = max(self.most_places[tier], len(self.places[tier]))
        self._uses.append((spot, name, self._submitted[name], writes))

    def _read_in(self, role: str, spot: Spot, block: int, half_s: float) -> int:
        """Look at a buffer, take one's time, look again: a write meanwhile would be seen."""
        for _ in range(2):
            assert self._lying[spot] == block, f"block {block} was read where {self._lying[spot]} lay"
            self._takes(role, half_s)
        assert self._lying[spot] == block, f"block {block} was overwritten with {self._lying[spot]} while it was read"
        return block

    def _op(self, step: Step, name: str, work: Any, items: int = 0) -> Op:
        ns = max(round(self._us[name] * US), 1)
        self._submitted[name] += 1
        error = ValueError(f"{name} failed") if self._fails == (name, self._submitted[name]) else None

        def run(*values: Any) -> Any:
            if error is not None:
                raise error
            return work(ns / 2e9, *values)

        return Op(name, LANES.get(name, Lane("h2d")), run, Cost(fixed_ns=ns), step.index, items, simulated_value=error)

    # ---- what the kernel tells ----------------------------------------------------------------------------

    def prefetched(self, step: Step, block: int) -> None:
        self.come.append(block)

    def wasted(self, step: Step, block: int) -> None:
        self.wasted_blocks.append(block)

    def answered(self, step: Step, looked: Looked, answer: Handle) -> None:
        if answer.value is not None:  # on threads
            assert self._desks[answer.value] == looked.block
        self.looked.append(looked)

    def drop(self, tier: Tier, place: int) -> None:
        self.places[tier].remove(place)
        self._lying.pop((tier, place), None)

    # ---- what came of it ----------------------------------------------------------------------------------

    @property
    def tiers(self) -> list[Tier]:
        """Where each lookup found its block."""
        return [looked.tier for looked in self.looked]

    def latencies_us(self) -> list[float]:
        """How long each lookup took."""
        return [(looked.done_ns - looked.issued_ns) / US for looked in self.looked]

    def check_buffers(self, trace: Trace) -> None:
        """Nobody writes into a buffer that is read or written, nobody reads one that is written: by the times of the trace."""
        of = {name: rows(trace, name) for name in self._us}
        written_at, free_at = dict.fromkeys((use[0] for use in self._uses), -1), {}
        for spot, name, number, writes in self._uses:
            row = of[name][number]
            began, ended = int(trace["start_ns"][row]), int(trace["end_ns"][row])
            assert began >= (free_at.get(spot, -1) if writes else written_at[spot]), f"{name} {number} began too early in {spot}"
            free_at[spot] = max(free_at.get(spot, -1), ended)
            if writes:
                written_at[spot] = ended

    def times(self, name: str) -> int:
        """How often an op was asked for."""
        return self._submitted[name]


def steps_of(count: int, changes: dict[int, dict[str, Any]] | None = None, **knobs: Any) -> list[Step]:
    """So many lookups; `changes`: at which one which knobs are turned."""
    settings, made = TiersKnobs.parse(knobs), []
    for index in range(count):
        if index in (changes or {}):
            settings = settings.changed(**(changes or {})[index])
        made.append(Step(index, settings))
    return made


def simulate(table: FakeTable, steps: Sequence[Step]) -> Trace:
    device = open_simulated(widths(steps[0].knobs))
    tiers(device, table, steps)
    device.close()
    return device.recorder.finish(device.now())


def run_on_threads(table: FakeTable, steps: Sequence[Step]) -> Trace:
    device = open_cpu(widths(steps[0].knobs))
    try:
        tiers(device, table, steps)
    finally:
        failures = device.close()
    assert not failures, failures
    return device.recorder.finish(device.now())


def run_on_fake_cuda(looked_up: Sequence[int] | None, steps: Sequence[Step]) -> tuple[FakeTable, Trace]:
    """Streams that are folds over a clock: what the table is asked for, and the trace. Rules of CUDA that are broken are an error."""
    fake = FakeCuda()
    table = FakeTable(looked_up, takes=lambda role, seconds: fake.work(round(seconds * 1e9)) if role in STREAM_ROLES else sleep(seconds))
    device = CudaDevice(0, widths=widths(steps[0].knobs), recorder=Recorder(1_000_000), api=fake)
    try:
        tiers(device, table, steps)
    finally:
        failures = device.close()
    assert not failures and not fake.broken_rules, (failures, fake.broken_rules)
    return table, device.recorder.finish(device.now())


def rows(trace: Trace, name: str) -> np.ndarray:
    """The rows of the ops of a name, in the order in which they were submitted."""
    return np.flatnonzero(trace["name"] == trace.names.index(name)) if name in trace.names else np.empty(0, np.int64)
