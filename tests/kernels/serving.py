"""A server on the virtual clock: requests at given times, batches that take given times, and what became of each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from labkit.device.simulated import SimulatedDevice
from labkit.experiments.batching import BatchingKnobs
from labkit.kernels.batching import batching
from labkit.schedule import Answer, Budget, Cost, Lane, Op, Request, Step, Steps
from labkit.schedule.arrivals import Arrivals, Replay
from labkit.trace import Recorder, Trace
from tests.device.conftest import machine_of

MS = 1_000_000
SLACK_NS = 1_000
"""More than all the verbs around one event cost, at 1 ns each."""


class Model:
    """A model whose batches of n take `takes_ms(n)`; a request's length is `lengths[id]`, 1 where there are none.

    fails  ids of requests on which the model raises
    """

    def __init__(self, takes_ms: Callable[[int], float], lengths: Sequence[int] = (), fails: Sequence[int] = ()):
        self.takes_ms, self.lengths, self.fails = takes_ms, lengths, set(fails)
        self.batches: list[list[int]] = []
        self.answered_ids: list[int] = []

    def length(self, request: Request) -> int:
        return self.lengths[request.id] if len(self.lengths) else 1

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> list[Op]:
        ids = [request.id for request, _ in requests]
        self.batches.append(ids)
        broken = ValueError(f"cannot take {ids}") if self.fails & set(ids) else None
        cost = Cost(fixed_ns=round(self.takes_ms(len(ids)) * MS), launches=0)

        def run(*_: Any) -> None:
            if broken is not None:
                raise broken

        model = Op("model", Lane("compute"), run, cost, step.index, simulated_value=broken)
        return [model, Op("answers", Lane("d2h"), run if broken is None else print, Cost(fixed_ns=1, launches=0), step.index, items=len(ids))]

    def answered(self, step: Step, requests: Sequence[Request], answers: Any) -> None:
        self.answered_ids += [request.id for request in requests]


class Served(SimpleNamespace):
    """What became of the requests: columns by name, in the order of their ids; `batches` as they were sent; `trace`."""

    trace: Trace
    batches: list[list[int]]

    def ms(self, column: str) -> list[float]:
        """A column of times in ms, rounded to what the verbs cost: to 0.01 ms."""
        return [round(value / MS, 2) for value in self.column(column)]

    def column(self, name: str) -> list[int]:
        columns = self.trace.requests
        return columns[name][np.argsort(columns["request"], kind="stable")].tolist()

    @property
    def answers(self) -> list[Answer]:
        return [Answer(answer) for answer in self.column("answer")]

    @property
    def latency_ms(self) -> list[float]:
        return [round((done - due) / MS, 2) for done, due in zip(self.column("done_ns"), self.column("due_ns"), strict=True)]


def serve(
    due_ms: Sequence[float] | Arrivals,
    takes_ms: Callable[[int], float] = lambda n: 10.0,
    *,
    lengths: Sequence[int] = (),
    fails: Sequence[int] = (),
    changes: Callable[[int], BatchingKnobs | None] = lambda now_ns: None,
    stop_at_ms: float | None = None,
    budget: Budget | None = None,
    **knobs: Any,
) -> Served:
    """Serve requests that are due at these times, on a virtual machine without overheads.

    changes  asked with the time for new knobs; stop_at_ms  when somebody presses Stop
    """
    arrivals = Replay([round(ms * MS) for ms in due_ms]) if isinstance(due_ms, Sequence) else due_ms
    settings = BatchingKnobs.parse({"model": "fixed", "slo": None, **knobs})
    device = SimulatedDevice(machine_of("cpu"), recorder=Recorder())
    model = Model(takes_ms, lengths, fails)
    steps = Steps(
        settings,
        budget or Budget(steps=10**6, warmup=0),
        device.now,
        stopped=lambda: stop_at_ms is not None and device.now() >= stop_at_ms * MS,
        changes=lambda: changes(device.now()),
        arrivals=arrivals,
        look_ns=None if stop_at_ms is None else MS,
    )
    batching(device, model, steps)
    assert device.close() == []
    return Served(trace=device.recorder.finish(device.now()), batches=model.batches, answered=model.answered_ids)
