"""A probe: one thing about a machine, measured. What the calibration runs, and how a probe takes its time.

A duration is the median of at least five, after a first one that is not counted.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns

from labkit.units import NS_PER_S, seconds_to_ns

LEAST = 5


@dataclass(frozen=True)
class Probe:
    """One measurement.

    words    what is being measured, for people who wait
    how      how it is measured, for the source of its figures
    measure  (seconds it may take) → figures of a machine by name
    """

    words: str
    how: str
    measure: Callable[[float], Mapping[str, float]]


def durations_ns(work: Callable[[], object], seconds: float) -> list[int]:
    """How long each call of `work` took: five at least, and as many as fit into `seconds`. The first call is left out."""
    work()
    durations: list[int] = []
    end_ns = perf_counter_ns() + seconds_to_ns(seconds)
    while len(durations) < LEAST or perf_counter_ns() < end_ns:
        begun_ns = perf_counter_ns()
        work()
        durations.append(perf_counter_ns() - begun_ns)
    return durations


def median_ns(work: Callable[[], object], seconds: float) -> float:
    """The median duration of a call of `work`, at least 1 ns."""
    return max(median(durations_ns(work, seconds)), 1.0)


def per_second(amount: float, work: Callable[[], object], seconds: float) -> float:
    """How much is done in a second, where a call of `work` does `amount`."""
    return amount * NS_PER_S / median_ns(work, seconds)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """torch computes on the calling thread alone; afterwards as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
