"""Layers of known durations for the offloading kernel: what lies in each place is checked by whoever computes with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import sleep
from typing import Any

import numpy as np

from labkit.experiments.offload import OffloadKnobs
from labkit.kernels.offload import offload
from labkit.schedule import Cost, Handle, Lane, Op, Step
from labkit.trace import Trace
from tests.kernels.conftest import open_cpu, open_simulated

US = 1000


class FakeLayers:
    """A fetch is a read (where `read_us` is given) and a copy; each stage takes its given time, by decree on the virtual clock and by sleeping
    on threads. On threads a place holds the number of the layer that lies there, and computing with another one is an error.

    fails  (stage, how many times it works before it raises)
    """

    def __init__(self, layers: int, copy_us: float, compute_us: float, read_us: float | None = None, fails: tuple[str, int] | None = None):
        self.layers = layers
        self._us = {"copy": copy_us, "compute": compute_us, "read": read_us or 0.0, "enter": 0.0, "leave": 0.0}
        self._reads = read_us is not None
        self._fails = fails
        self._done = dict.fromkeys(self._us, 0)
        self.lying: dict[int, int] = {}
        self.dropped: list[int] = []
        self.results: list[Any] = []
        self.fetched: list[tuple[int, int]] = []

    def keeps(self, knobs: Any) -> frozenset[int]:
        return frozenset(range(int(knobs.device_budget * self.layers)))

    def enter(self, step: Step) -> Op:
        return self._op("enter", "workers", step, lambda: ())

    def fetch(self, step: Step, layer: int, place: int) -> list[Op]:
        self.fetched.append((layer, place))

        def copy(*read: int) -> int:
            assert not self._reads or read == (layer,)
            self.lying[place] = layer
            return place

        reading = [self._op("read", "disk", step, lambda: layer)] if self._reads else []
        return [*reading, self._op("copy", "h2d", step, copy)]

    def compute(self, step: Step, layer: int, place: int, brought: Any) -> list[Op]:
        def forward(hidden: tuple[int, ...], weights: int) -> tuple[int, ...]:
            assert weights == place
            sleep(self._us["compute"] / 2e6)  # so that a fetch into a place that is still read would be seen
            assert self.lying[place] == layer, f"layer {layer} was computed with the weights of {self.lying[place]}"
            return (*hidden, layer)

        return [self._op("compute", "compute", step, forward)]

    def leave(self, step: Step) -> Op:
        return self._op("leave", "d2h", step, lambda hidden: hidden, items=1)

    def left(self, step: Step, result: Handle) -> None:
        self.results.append(result.value)

    def drop(self, place: int) -> None:
        self.dropped.append(place)
        self.lying.pop(place, None)

    def _op(self, stage: str, role: str, step: Step, work: Any, items: int = 0) -> Op:
        ns = max(round(self._us[stage] * US), 1)
        self._done[stage] += 1
        error = ValueError(f"{stage} failed") if self._fails is not None and (stage, self._done[stage]) == self._fails else None

        def run(*values: Any) -> Any:
            sleep(ns / 2e9)
            if error is not None:
                raise error
            return work(*values)

        return Op(stage, Lane(role), run, Cost(fixed_ns=ns), step.index, items, simulated_value=error)


def steps_of(count: int, changes: dict[int, dict[str, Any]] | None = None, **knobs: Any) -> list[Step]:
    """So many passes; `changes`: at which pass which knobs are turned."""
    settings, made = dict(knobs), []
    for index in range(count):
        settings |= (changes or {}).get(index, {})
        made.append(Step(index, OffloadKnobs.parse(settings)))
    return made


def simulate(layers: FakeLayers, steps: Iterable[Step]) -> Trace:
    device = open_simulated()
    offload(device, layers, steps)
    device.close()
    return device.recorder.finish(device.now())


def run_on_threads(layers: FakeLayers, steps: Iterable[Step]) -> Trace:
    device = open_cpu()
    try:
        offload(device, layers, steps)
    finally:
        failures = device.close()
    assert not failures, failures
    return device.recorder.finish(device.now())


def rows(trace: Trace, name: str) -> np.ndarray:
    """The rows of the ops of a name, in the order in which they were submitted."""
    return np.flatnonzero(trace["name"] == trace.names.index(name)) if name in trace.names else np.empty(0, np.int64)


def pass_ends(trace: Trace) -> list[int]:
    return trace["end_ns"][rows(trace, "leave")].tolist()


def distances(times: Sequence[int]) -> list[int]:
    return np.diff(times).tolist()
