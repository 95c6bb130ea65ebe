"""A model of known cost: every batch takes `batch_ms`, and `item_ms` more for each request in it.

For queueing experiments, where one wants to know what the model takes: the device computes until the time is over, on the CPU by matrix
products that let other threads run. It is not for CUDA, where nothing takes a given time.
"""

from collections.abc import Sequence
from time import perf_counter_ns

import numpy as np

from labkit.schedule import Cost, Handle, Lane, Op, Request, Step
from labkit.units import NS_PER_MS
from labkit.workloads.workload import Workload

COMPUTE = Lane("compute")
_SIDE = 96


class FixedCost(Workload):
    """A `ServingWorkload` whose batches take a known time."""

    def length(self, request: Request) -> int:
        """All requests ask for the same."""
        return 1

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> list[Op]:
        """One op: the model."""
        knobs, count = step.knobs, len(requests)
        takes_ns = max(round((knobs.batch_ms + knobs.item_ms * count) * NS_PER_MS), 1)

        def run() -> None:
            compute_for(takes_ns)

        return [self.op("model", COMPUTE, run, Cost(fixed_ns=takes_ns, launches=0), step, items=count)]

    def answered(self, step: Step, requests: Sequence[Request], answers: Handle) -> None:
        """There is nothing to read."""


def compute_for(ns: int) -> None:
    """Keep a core busy for so long, to within one small matrix product; other threads may run meanwhile."""
    end_ns = perf_counter_ns() + ns
    matrix = np.ones((_SIDE, _SIDE), np.float32)
    product = np.empty_like(matrix)
    while perf_counter_ns() < end_ns:
        np.dot(matrix, matrix, out=product)
