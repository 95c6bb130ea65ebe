"""torch.utils.data.DataLoader: two worker processes, two batches ahead each (its default), workers kept."""

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from tests.bench.contender import serve
from tests.bench.contenders.items import BATCH, PREFETCH, WORKERS, Items, images_per_s, order


class Photos(Dataset):
    """The items as torch tensors."""

    def __init__(self) -> None:
        self._items = Items()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, int]:
        image_HWC, label = self._items[item]
        return torch.from_numpy(image_HWC), label


class Endless(Sampler[int]):
    """The common order, without end."""

    def __iter__(self):
        return order(Items())


def main() -> None:
    """One iterator for all turns."""
    torch.set_num_threads(1)
    loader = DataLoader(
        Photos(), batch_size=BATCH, sampler=Endless(), num_workers=WORKERS, prefetch_factor=PREFETCH // WORKERS
    )
    batches = iter(loader)
    serve(lambda count: images_per_s(batches, count))


if __name__ == "__main__":
    main()
