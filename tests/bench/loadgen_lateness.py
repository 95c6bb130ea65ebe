"""How late the load generator is, whether its gaps are what they should be, and whether a server that freezes is seen.

Late is the time from when a request was due to when the host took it in, at 2,000 requests a second: alone, and beside a model that keeps
the compute thread busy. A frozen second of the server must be wholly visible in p99 when arrivals do not wait for it (open loop); the usual
mistake, clients that send when they have their answer (closed loop), does not see it, and is shown beside it.
"""

from collections.abc import Sequence
from time import sleep
from typing import Any

import numpy as np

import labkit
from labkit.device.cpu import CpuDevice
from labkit.experiments.batching import BatchingKnobs
from labkit.kernels.batching import batching
from labkit.result import Run
from labkit.runner.workers import Workers
from labkit.schedule import Budget, Lane, Op, Request, Step, Steps
from labkit.schedule.arrivals import Arrivals, OpenLoop
from tests.bench.batcher_cost import Outstanding
from tests.bench.measure import Line, progress

NAME = "loadgen-lateness"
RATE = 2000.0
P50_TARGET_MS, P99_TARGET_MS, BESIDE_TARGET_MS = 0.15, 2.0, 5.0
FREEZE_S, FREEZE_RATE, FREEZE_RUN_S = 1.0, 200.0, 5.0
MS = 1_000_000


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    seconds, rounds = (1.0, 1) if quick else (4.0, 5)
    alone, beside = [], []
    with Workers() as pool:
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}")
            alone.append(_late(pool, seconds, number, batch_ms=0.0, item_ms=0.001))
            beside.append(_late(pool, seconds, number, batch_ms=4.0, item_ms=0.02))
    quiet, busy = (np.median(np.array([(p50, p99) for p50, p99, _, _ in each]), axis=0) for each in (alone, beside))
    gaps = float(np.median([p for *_, p, _ in alone]))
    loaded = float(np.median([share for *_, share in beside]))
    progress("a frozen second")
    seen, missed = _frozen(open_loop=True), _frozen(open_loop=False)
    print(f"  alone: late by {quiet[0]:.3f} ms (p50), {quiet[1]:.2f} ms (p99); targets ≤ {P50_TARGET_MS:g} and ≤ {P99_TARGET_MS:g}")
    print(f"  beside a model that keeps compute {loaded:.0%} busy: {busy[0]:.3f} ms (p50), {busy[1]:.2f} ms (p99); target ≤ {BESIDE_TARGET_MS:g}")
    print(f"  gaps of what was taken in against the exponential distribution: Kolmogorov-Smirnov p = {gaps:.2f}")
    print(f"  the server frozen for {FREEZE_S:g} s of {FREEZE_RUN_S:g}: p99 {seen:.0f} ms from the intended arrival, {missed:.0f} ms in a closed loop (INVALID: it waits with the server)")
    ok = quiet[0] <= P50_TARGET_MS and quiet[1] <= P99_TARGET_MS and busy[1] <= BESIDE_TARGET_MS
    return Line(
        name=NAME, ours=float(quiet[1]), peer=None, unit="ms late (p99)", ratio=None, low=None, high=None, aa_ratio=None, rounds=rounds,
        passed=ok and gaps > 0.001 and seen >= 900 * FREEZE_S > missed,
        bound=f"alone p50 <= {P50_TARGET_MS:g} ms and p99 <= {P99_TARGET_MS:g} ms, beside a model p99 <= {BESIDE_TARGET_MS:g} ms; exponential gaps; a frozen second in p99",
        details={"alone_ms": quiet.tolist(), "beside_ms": busy.tolist(), "ks_p": gaps, "open_p99_ms": seen, "closed_p99_ms": missed},
    )  # fmt: skip


def _late(pool: Workers, seconds: float, seed: int, **takes: float) -> tuple[float, float, float, float]:
    """Lateness p50 and p99 in ms, p of the test of gaps, busy share of compute."""
    run = labkit.run("batching", device="cpu", model="fixed", policy="greedy", rate=RATE, seconds=seconds, seed=seed, max_batch=256, pool=pool, **takes).checked()
    columns, busy = _requests(run), run.shown("").summary.utilization["compute"].value or 0.0
    late_ms = (columns["admitted_ns"] - columns["due_ns"]) / MS
    return float(np.quantile(late_ms, 0.5)), float(np.quantile(late_ms, 0.99)), _gaps_p(columns["due_ns"]), busy


def _requests(run: Run) -> dict[str, np.ndarray]:
    assert run.trace is not None
    return run.trace.requests


def _gaps_p(due_ns: np.ndarray) -> float:
    from scipy import stats

    return float(stats.kstest(np.diff(np.sort(due_ns)) * RATE / 1e9, "expon").pvalue)


class Freezes:
    """A model that takes a millisecond, and once stands still. `source` is told of answers where it is a closed loop."""

    def __init__(self, device: CpuDevice, source: Arrivals):
        self._device, self._source, self._frozen = device, source, False

    def length(self, request: Request) -> int:
        """All the same."""
        return 1

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> list[Op]:
        """One op."""
        return [Op("model", Lane("compute"), self._run, step=step.index, items=len(requests))]

    def answered(self, step: Step, requests: Sequence[Request], answers: Any) -> None:
        """In a closed loop each answer brings the next request."""
        if isinstance(self._source, Outstanding):
            self._source.answered(len(requests))

    def _run(self) -> None:
        sleep(0.001)
        if not self._frozen and self._device.now() > 2e9:
            self._frozen = True
            sleep(FREEZE_S)


def _frozen(open_loop: bool) -> float:
    """p99 of the latency, in ms."""
    device = CpuDevice()
    source = OpenLoop(FREEZE_RATE, "poisson") if open_loop else Outstanding(2, 10**9)
    knobs = BatchingKnobs(model="fixed", policy="none", in_flight=1, slo=None, queue_limit=100_000)
    steps = Steps(knobs, Budget(seconds=FREEZE_RUN_S, warmup=0), device.now, arrivals=source)
    batching(device, Freezes(device, source), steps)
    trace = device.recorder.finish(device.now())
    device.close()
    latency_ns = trace.requests["done_ns"] - trace.requests["due_ns"]
    return float(np.quantile(latency_ns, 0.99)) / MS
