"""Probes that no prediction needs and people do: how fine the clock is, arithmetic by number format, how well threads scale, and how far
two rounds of the same work lie apart, which is what any comparison here has to beat."""

from collections.abc import Callable
from math import log, sqrt
from statistics import median, stdev
from time import perf_counter_ns

from labkit.device.cores import available_cores
from labkit.errors import DeviceError
from labkit.metrics.compare import smallest_effect
from labkit.runner.probe import LEAST, Probe, one_torch_thread, per_second
from labkit.runner.probe_host import matrix_product, mixed_work, threads_on_cores
from labkit.units import NS_PER_S, seconds_to_ns

SMALL = 256
ROUNDS, ROUND_S = 10, 0.15
Figures = dict[str, float]


def passport_probes() -> list[Probe]:
    """The probes of this file."""
    return [
        Probe("how fine the clock is", "smallest difference between 20,000 pairs of readings that differ", resolution),
        Probe("arithmetic by number format", f"product of two {SMALL} x {SMALL} matrices in torch on one thread", by_format),
        Probe("threads", "products of 512 x 512 fp32 matrices on every core at once, a thread each, against one alone", scaling),
        Probe("rounds", f"{ROUNDS} rounds of decoding, products and passes through memory, {ROUND_S} s each; standard deviation of their logarithms", rounds),
    ]


def resolution(_: float) -> Figures:
    """The smallest step of the clock."""
    steps = []
    for _ in range(20_000):
        first = perf_counter_ns()
        second = perf_counter_ns()
        if second > first:
            steps.append(second - first)
    return {"clock_resolution_ns": min(steps)}


def by_format(seconds: float) -> Figures:
    """FLOP/s of one core in bf16 and fp16, in which many CPUs are slow."""
    import torch

    rates = {}
    with one_torch_thread():
        for name, dtype in (("host_bf16_flop_per_s", torch.bfloat16), ("host_fp16_flop_per_s", torch.float16)):
            left, right = (torch.full((SMALL, SMALL), value, dtype=dtype) for value in (0.5, 0.25))
            rates[name] = per_second(2 * SMALL**3, lambda left=left, right=right: left @ right, seconds / 4)
    return rates


def scaling(seconds: float) -> Figures:
    """The speed that each of all cores has while all work, ÷ that of one alone. Raises DeviceError where there is one core only."""
    import torch

    count = available_cores()
    if count < 2:
        raise DeviceError("there is one core only: nothing can run beside it")
    works = [matrix_product(512) for _ in range(count)]

    def ten(work: Callable[[], object]) -> int:
        begun_ns = perf_counter_ns()
        for _ in range(10):
            work()
        return perf_counter_ns() - begun_ns

    shares = []
    with threads_on_cores(count) as each:
        for thread in each:
            thread.submit(torch.set_num_threads, 1).result()
        end_ns = perf_counter_ns() + seconds_to_ns(seconds)
        while len(shares) <= LEAST or perf_counter_ns() < end_ns:
            alone = [thread.submit(ten, work).result() for thread, work in zip(each, works, strict=True)]
            both = [done.result() for done in [thread.submit(ten, work) for thread, work in zip(each, works, strict=True)]]
            shares.append(sum(alone) / sum(both))
    return {"thread_scaling_share": min(median(shares[1:]), 1.0)}


def rounds(_: float) -> Figures:
    """How far rounds of the same work lie apart."""
    work = mixed_work()
    with one_torch_thread():
        work()
        rates = [_rate(work) for _ in range(ROUNDS)]
    return {"round_noise_share": max(stdev(log(rate) for rate in rates), 1e-6)}


def detectable(round_noise_share: float, n: int) -> float:
    """The smallest effect, as a share, that n rounds of each side in turns show in four of five comparisons: each round's ratio has two
    rounds' noise, √2 of one's, and the mean of n that ÷ √n (`labkit.metrics.compare.smallest_effect`)."""
    return smallest_effect(sqrt(2) * round_noise_share / sqrt(n), n)


def _rate(work: Callable[[], object]) -> float:
    done, began_ns = 0, perf_counter_ns()
    while perf_counter_ns() - began_ns < ROUND_S * NS_PER_S:
        work()
        done += 1
    return done * NS_PER_S / (perf_counter_ns() - began_ns)
