"""Probes of the host: the clock, decoding, arithmetic and memory of one core, and what is left when others work too."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from statistics import median
from time import perf_counter_ns

import numpy as np

from labkit.data.decode import decode_square
from labkit.data.locate import datasets_root
from labkit.data.photos import Photos
from labkit.device.cores import available_cores
from labkit.errors import DeviceError
from labkit.runner.probe import LEAST, Probe, one_torch_thread, per_second
from labkit.units import NS_PER_S, seconds_to_ns

SIDE = 160
MIB = 1 << 20
STREAM_BYTES = 64 * MIB
"""Larger than a core's share of any cache, so that a pass over it comes from memory."""

PASSES = 4
"""Passes of a thread in a round: long beside the time that starting it takes."""

Figures = dict[str, float]


def host_probes() -> list[Probe]:
    """The probes of this file, cheapest first."""
    return [
        Probe("cores", "affinity and the container's quota", cores),
        Probe("the clock", "10,000 readings in a row", clock),
        Probe("JPEG decoding", f"one thread decodes the shipped photos to squares of {SIDE} pixels; source pixels count", decode),
        Probe("arithmetic of one core", "product of two 512 x 512 fp32 matrices in torch on one thread", arithmetic),
        Probe("memory of one core", "numpy scales 64 MiB of fp32 into another 64 MiB; reads and writes count", stream),
        Probe("memory of all cores", "the same on all cores at once, each with its own arrays", stream_on_all),
        Probe("one core beside another", "decoding, a matrix product and a pass through memory: alone, then on two cores", corun),
    ]


def cores(_: float) -> Figures:
    """Cores that this process may use."""
    return {"cores": available_cores()}


def clock(seconds: float) -> Figures:
    """What it costs to read the clock."""

    def read() -> None:
        for _ in range(10_000):
            perf_counter_ns()

    return {"clock_ns": NS_PER_S / per_second(10_000, read, seconds / 10)}


def decode(seconds: float) -> Figures:
    """Every fifth photo is a round, and the rounds begin at different photos: all classes are in each."""
    photos = Photos.open(datasets_root() / "photos")
    pixels = photos.sizes_wh.astype(np.int64).prod(axis=1)
    rounds = [np.arange(first, len(photos), LEAST) for first in range(min(LEAST, len(photos)))]
    out_HWC = np.empty((SIDE, SIDE, 3), np.uint8)

    def rate(chosen: np.ndarray) -> float:
        begun_ns = perf_counter_ns()
        for index in chosen.tolist():
            decode_square(photos.paths[index], SIDE, out=out_HWC)
        return int(pixels[chosen].sum()) * NS_PER_S / (perf_counter_ns() - begun_ns)

    for chosen in rounds:  # the files are in memory from here on
        rate(chosen)
    rates = []
    end_ns = perf_counter_ns() + seconds_to_ns(seconds)
    while len(rates) < LEAST or perf_counter_ns() < end_ns:
        rates.append(rate(rounds[len(rates) % len(rounds)]))
    return {"decode_pixels_per_s": median(rates)}


def arithmetic(seconds: float) -> Figures:
    """fp32 matrix product on one thread."""
    with one_torch_thread():
        return {"host_flop_per_s": per_second(2 * 512**3, matrix_product(512), seconds)}


def stream(seconds: float) -> Figures:
    """A pass through memory on one core."""
    return {"host_bytes_per_s": per_second(2 * STREAM_BYTES, streaming_pass(STREAM_BYTES), seconds)}


def stream_on_all(seconds: float) -> Figures:
    """A pass through memory on every core at once."""
    threads = available_cores()
    size = min(STREAM_BYTES, max(4 * MIB, 2048 * MIB // threads))
    passes = [streaming_pass(size) for _ in range(threads)]
    with threads_on_cores(threads) as each:

        def all_at_once() -> None:
            for done in [thread.submit(_repeat, one) for thread, one in zip(each, passes, strict=True)]:
                done.result()

        return {"dram_bytes_per_s": per_second(2 * size * threads * PASSES, all_at_once, seconds)}


def corun(seconds: float) -> Figures:
    """The speed that a core keeps while another does the same work. Raises DeviceError where there is one core only."""
    import torch

    if available_cores() < 2:
        raise DeviceError("there is one core only: nothing can run beside it")
    works = mixed_work(), mixed_work()
    shares = []
    with threads_on_cores(2) as pair:
        for thread in pair:
            thread.submit(torch.set_num_threads, 1).result()
        end_ns = perf_counter_ns() + seconds_to_ns(seconds)
        while len(shares) <= LEAST or perf_counter_ns() < end_ns:
            alone = [thread.submit(work).result() for thread, work in zip(pair, works, strict=True)]
            both = [thread.submit(work) for thread, work in zip(pair, works, strict=True)]
            shares.append(sum(alone) / sum(done.result() for done in both))
    return {"corun_share": min(median(shares[1:]), 1.0)}


@contextmanager
def threads_on_cores(count: int) -> Iterator[list[ThreadPoolExecutor]]:
    """`count` threads, each kept to a core of its own, so that no scheduler puts two on one core."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(ThreadPoolExecutor(1, initializer=_keep_to_core, initargs=(number,)))
            for number in range(count)
        ]


def _keep_to_core(number: int) -> None:
    try:
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[number % len(allowed)]})
    except (AttributeError, OSError):
        pass  # not on this system: its scheduler decides


def matrix_product(size: int) -> Callable[[], object]:
    """A product of two square fp32 matrices."""
    import torch

    left, right, out = (torch.full((size, size), value) for value in (0.5, 0.25, 0.0))
    return lambda: torch.mm(left, right, out=out)


def streaming_pass(size: int) -> Callable[[], object]:
    """A pass that reads `size` bytes and writes as many."""
    source, target = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
    scale = np.float32(1.5)
    return lambda: np.multiply(source, scale, out=target)


def mixed_work() -> Callable[[], int]:
    """A little of what lanes do on the host; a call gives the nanoseconds that it took."""
    photos = Photos.open(datasets_root() / "photos")
    paths = photos.paths[:: max(len(photos) // 8, 1)][:8]
    out_HWC = np.empty((SIDE, SIDE, 3), np.uint8)
    product, one_pass = matrix_product(512), streaming_pass(16 * MIB)

    def work() -> int:
        begun_ns = perf_counter_ns()
        for path in paths:
            decode_square(path, SIDE, out=out_HWC)
            product()
        one_pass()
        return perf_counter_ns() - begun_ns

    return work


def _repeat(one_pass: Callable[[], object]) -> None:
    for _ in range(PASSES):
        one_pass()
