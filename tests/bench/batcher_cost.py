"""What batching itself costs a request: an empty model, 256 requests outstanding, and the pip package `batched` beside it.

Ours is the batching kernel on the cpu device as experiments run it, recording included: the host's thread takes requests in, makes batches, and
hands them to the compute thread. `batched` is asked from 256 tasks of one asyncio loop, each of which awaits its answer and asks again.
"""

from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

from labkit.device.cpu import CpuDevice
from labkit.experiments.batching import BatchingKnobs
from labkit.kernels.batching import batching
from labkit.schedule import Budget, Lane, Op, Request, Step, Steps
from tests.bench.contender import Contender
from tests.bench.measure import BenchError, Line, in_turns, progress, ratio_of
from tests.bench.peers import peer_python

NAME = "batcher-cost"
OUTSTANDING, MAX_BATCH = 256, 64
TARGET_US, PEER_TARGET = 7.0, 0.25


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, requests = (2, 4_000) if quick else (9, 40_000)
    with Contender(peer_python(), "tests.bench.contenders.batched_cost") as peer:
        numbers = in_turns(
            {"ours": lambda: ours_us(requests), "batched": lambda: peer.go(requests), "ours again": lambda: ours_us(requests)}, rounds, progress
        )
    ratio = ratio_of(numbers["ours"], numbers["batched"])
    ours, theirs = median(numbers["ours"]), median(numbers["batched"])
    print(f"  ours {ours:.2f} µs a request, batched {theirs:.1f} µs: {ratio} of it; targets ≤ {TARGET_US:g} µs and ≤ {PEER_TARGET:g}")
    return Line(
        name=NAME, ours=ours, peer=theirs, unit="µs a request", ratio=ratio.value, low=ratio.low, high=ratio.high,
        aa_ratio=ratio_of(numbers["ours"], numbers["ours again"]).value, rounds=rounds, passed=ours <= TARGET_US and ratio.value <= PEER_TARGET,
        bound=f"<= {TARGET_US:g} µs a request, and <= {PEER_TARGET:g} of batched",
    )  # fmt: skip


class Outstanding:
    """A closed loop: so many requests are under way at any time, each answer brings the next. `next_ns` as of every source of requests."""

    def __init__(self, outstanding: int, requests: int):
        self._ready, self._left, self._number = outstanding, requests, 0
        self.next_ns: int | None = 0

    def take(self, now_ns: int) -> list[Request]:
        """Those that may be asked for now."""
        count = min(self._ready, self._left)
        taken = [Request(self._number + place, now_ns) for place in range(count)]
        self._number, self._left, self._ready = self._number + count, self._left - count, self._ready - count
        self.next_ns = None
        return taken

    def turn(self, now_ns: int, rate: float, shape: str) -> None:
        """A closed loop has no rate of its own."""

    def answered(self, count: int) -> None:
        """So many more may be asked for."""
        self._ready += count
        self.next_ns = 0 if self._left else None


class EmptyModel:
    """Answers at once."""

    def __init__(self, source: Outstanding):
        self._source = source
        self.answers = 0

    def length(self, request: Request) -> int:
        """All the same."""
        return 1

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> list[Op]:
        """One op that does nothing."""
        return [Op("model", Lane("compute"), _nothing, step=step.index, items=len(requests))]

    def answered(self, step: Step, requests: Sequence[Request], answers: Any) -> None:
        """Each answer brings the next request."""
        self.answers += len(requests)
        self._source.answered(len(requests))


def ours_us(requests: int) -> float:
    """µs a request."""
    source = Outstanding(OUTSTANDING, requests)
    model, device = EmptyModel(source), CpuDevice()
    knobs = BatchingKnobs(model="fixed", policy="greedy", max_batch=MAX_BATCH, in_flight=4, slo=None, queue_limit=OUTSTANDING)
    steps = Steps(knobs, Budget(steps=10**9, warmup=0), device.now, arrivals=source)
    began = perf_counter()
    batching(device, model, steps)
    took_s = perf_counter() - began
    device.close()
    if model.answers != requests:
        raise BenchError(f"{requests} requests were sent and {model.answers} answered")
    return took_s / requests * 1e6


def _nothing() -> None:
    pass
