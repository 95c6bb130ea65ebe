"""The bound for two workers: two processes that decode and augment half each and hand nothing over.

Both are warm and start at a barrier; each times its own half while the other works beside it. The bound is the sum of
their rates.
"""

import multiprocessing as mp
from multiprocessing.connection import Connection
from threading import BrokenBarrierError
from time import perf_counter
from typing import Any

from tests.bench.contender import serve
from tests.bench.contenders.items import BATCH, LEAD, WORKERS, Items, batches_of, order


def half(link: Connection, barrier: Any, first: int) -> None:
    """One of the two processes: every second item."""
    items = Items()
    batches = batches_of(order(items, first, WORKERS))
    while (count := link.recv()) is not None:
        for _ in range(LEAD // WORKERS):
            items.batch(next(batches))
        try:
            barrier.wait(60)
        except BrokenBarrierError:
            return
        began = perf_counter()
        for _ in range(count):
            items.batch(next(batches))
        link.send(count * BATCH / (perf_counter() - began))


def main() -> None:
    """Start both, and give the sum of their rates."""
    spawn = mp.get_context("spawn")
    barrier = spawn.Barrier(WORKERS)
    links = []
    for first in range(WORKERS):
        ours, theirs = spawn.Pipe()
        spawn.Process(target=half, args=(theirs, barrier, first), daemon=True).start()
        links.append(ours)

    def go(count: int) -> float:
        for link in links:
            link.send(count // WORKERS)
        return sum(link.recv() for link in links)

    serve(go)


if __name__ == "__main__":
    main()
