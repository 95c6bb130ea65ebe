"""SPDL: a pipeline of two threads, four batches ahead.

`image` is the form of its documentation: images decode concurrently, then are gathered. `batch` gives a thread a whole
batch at a time, which spares the event loop and is what ours does.
"""

import sys

import numpy as np
from spdl.pipeline import PipelineBuilder

from tests.bench.contender import serve
from tests.bench.contenders.items import BATCH, PREFETCH, WORKERS, Items, batches_of, images_per_s, order


def main() -> None:
    """One pipeline for all turns."""
    items = Items()

    def gather(decoded: list) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([image for image, _ in decoded]), np.array([label for _, label in decoded], np.int64)

    if sys.argv[1] == "image":
        builder = PipelineBuilder().add_source(order(items)).pipe(items.__getitem__, concurrency=WORKERS)
        builder = builder.aggregate(BATCH).pipe(gather)
    else:
        builder = PipelineBuilder().add_source(batches_of(order(items))).pipe(items.batch, concurrency=WORKERS)
    pipeline = builder.add_sink(PREFETCH).build(num_threads=WORKERS)
    with pipeline.auto_stop():
        batches = iter(pipeline.get_iterator())
        serve(lambda count: images_per_s(batches, count))


if __name__ == "__main__":
    main()
