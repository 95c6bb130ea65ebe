"""grain: its data set pipeline with two readers, `threads` of this process or `processes`."""

import sys
from itertools import islice

import grain

from tests.bench.contender import serve
from tests.bench.contenders.items import BATCH, PREFETCH, WORKERS, Items, images_per_s, order


def main() -> None:
    """One iterator for all turns."""
    items = Items()
    numbers = list(islice(order(items), len(items)))
    loaded = grain.MapDataset.source(numbers).map(items.__getitem__).batch(BATCH).repeat()
    if sys.argv[1] == "threads":
        batches = iter(loaded.to_iter_dataset(grain.ReadOptions(num_threads=WORKERS, prefetch_buffer_size=PREFETCH)))
    else:
        ahead = grain.MultiprocessingOptions(num_workers=WORKERS, per_worker_buffer_size=PREFETCH // WORKERS)
        batches = iter(loaded.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)).mp_prefetch(ahead))
    serve(lambda count: images_per_s(batches, count))


if __name__ == "__main__":
    main()
