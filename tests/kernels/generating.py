"""A server that generates, on the virtual clock: requests at given times that want given numbers of tokens, turns that take given times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labkit.device.simulated import SimulatedDevice
from labkit.experiments.continuous import ContinuousKnobs
from labkit.kernels.continuous import continuous
from labkit.schedule import Budget, Cost, Lane, Op, Request, Step, Steps
from labkit.schedule.arrivals import Arrivals, Replay
from labkit.trace import Recorder
from labkit.workloads.generating import Going
from tests.device.conftest import machine_of
from tests.kernels.serving import MS, Served


class Turns:
    """A model that makes a token for each of n sequences in `takes_ms(n)`; request i wants `wanted[i]` of them.

    fails  numbers of turns in which the model raises
    """

    def __init__(self, wanted: Sequence[int], takes_ms: Callable[[int], float], fails: Sequence[int]):
        self._wanted, self._takes_ms, self._fails = wanted, takes_ms, set(fails)
        self.members: list[list[int]] = []
        self.joined: list[list[int]] = []
        self.places: list[list[int]] = []
        self.made: list[list[int]] = []
        self.answered_ids: list[int] = []

    def length(self, request: Request) -> int:
        return 3

    def wanted(self, request: Request) -> int:
        return self._wanted[request.id]

    def turn(self, step: Step, slot: int, joining: Sequence[Going], going: Sequence[Going]) -> list[Op]:
        everybody = [*joining, *going]
        self.joined.append([one.request.id for one in joining])
        self.members.append(sorted(one.request.id for one in everybody))
        self.places.append(sorted(one.place for one in everybody))
        self.made.append([one.made for one in everybody])
        assert all(one.made == 0 for one in joining) and all(one.made > 0 for one in going)
        broken = ValueError("out of memory") if step.index in self._fails else None
        cost = Cost(fixed_ns=round(self._takes_ms(len(everybody)) * MS), launches=0)
        items = sum(one.made < one.wanted for one in everybody)
        return [
            Op("decode", Lane("compute"), print, cost, step.index, simulated_value=broken),
            Op("tokens", Lane("d2h"), print, Cost(fixed_ns=1, launches=0), step.index, items=items),
        ]

    def answered(self, step: Step, requests: Sequence[Request], tokens: Any) -> None:
        self.answered_ids += [request.id for request in requests]


def generate(
    due_ms: Sequence[float] | Arrivals,
    wanted: Sequence[int],
    takes_ms: Callable[[int], float] = lambda n: 10.0,
    *,
    fails: Sequence[int] = (),
    changes: Callable[[int], ContinuousKnobs | None] = lambda now_ns: None,
    stop_at_ms: float | None = None,
    cancel_at_turn: int | None = None,
    budget: Budget | None = None,
    **knobs: Any,
) -> Served:
    """Generate for requests that are due at these times, on a virtual machine without overheads; one turn at a time unless told otherwise.

    cancel_at_turn  the device is cancelled when this turn has been submitted
    """
    arrivals = Replay([round(ms * MS) for ms in due_ms]) if isinstance(due_ms, Sequence) else due_ms
    settings = ContinuousKnobs.parse({"slo": None, "in_flight": 1, **knobs})
    device = SimulatedDevice(machine_of("cpu"), recorder=Recorder())
    model = Turns(wanted, takes_ms, fails)

    def watch() -> bool:
        if cancel_at_turn is not None and len(model.members) > cancel_at_turn:
            device.cancel()
        return stop_at_ms is not None and device.now() >= stop_at_ms * MS

    steps = Steps(
        settings,
        budget or Budget(steps=10**6, warmup=0),
        device.now,
        stopped=watch,
        changes=lambda: changes(device.now()),
        arrivals=arrivals,
        look_ns=None if stop_at_ms is None else MS,
    )
    continuous(device, model, steps)
    assert device.close() == []
    return Served(trace=device.recorder.finish(device.now()), batches=model.members, answered=model.answered_ids, model=model)
