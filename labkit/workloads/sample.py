"""A few items of a user's data set, taken when a workload is prepared: what form a batch has, and how long an item takes.

Nothing declares what loading a user's item asks of the hardware, so it is timed, on this host and in one thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any

from labkit.units import seconds_to_ns
from labkit.workloads.batches import BatchForm
from labkit.workloads.parts import Loading

ITEMS = 8
LONGEST_S = 2.0
"""No further item is timed after this long."""


@dataclass(frozen=True)
class Sample:
    """The form of a batch, and the median time to make one item of it.

    An own `collate` is timed with the items; torch's default one is not, since it only moves the bytes of the batch.
    """

    form: BatchForm
    item_ns: int


def sample_of(loading: Loading, clock: Callable[[], int] = perf_counter_ns) -> Sample:
    """Load a few items, spread over the data set, and put them together. Raises DataError."""
    total = len(loading.dataset)
    count = min(ITEMS, total)
    chosen = [place * total // count for place in range(count)]
    loading.item(chosen[0])  # the first one opens files and imports modules
    items, times_ns = [], []
    began_ns = clock()
    for index in chosen:
        asked_ns = clock()
        items.append(loading.item(index))
        times_ns.append(clock() - asked_ns)
        if clock() - began_ns > seconds_to_ns(LONGEST_S):
            break
    form = BatchForm(items, loading.collated)
    return Sample(form, max(round(median(times_ns)) + _collate_ns(loading, items, clock), 1))


def _collate_ns(loading: Loading, items: list[Any], clock: Callable[[], int]) -> int:
    """What an own `collate` takes for one of the items."""
    if loading.collate is None:
        return 0
    began_ns = clock()
    loading.collated(items)
    return (clock() - began_ns) // len(items)
