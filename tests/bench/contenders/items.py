"""The work that every loader contender does: photo to a decoded square, cut and mirrored to 96 pixels, in batches of 16.

The shipped photos are repeated, so that an epoch is long, each lap in an order of its own; a turn of whole laps is the same
work for all. `go N` reads batches without a pause, leaves the first `LEAD` out (what was made while the contender was idle, and the queues'
filling) and times the N after them: the steady state.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

from labkit.data.decode import decode_square
from labkit.data.locate import datasets_root
from labkit.data.photos import Photos
from labkit.workloads.images import Crops, crop_on_host

BATCH = 16
SIDE = 96
DECODED_SIDE = 108
WORKERS = 2
PREFETCH = 4
LEAD = 10
REPEATS = 50


class Items:
    """Item `i` of the repeated photos; a map-style data set, as torch and grain take it."""

    def __init__(self) -> None:
        photos = Photos.open(datasets_root() / "photos")
        self._paths, self._labels = photos.paths, photos.labels.tolist()
        self._crops = Crops.draw((0, 0), len(photos), DECODED_SIDE - SIDE)

    def __len__(self) -> int:
        return len(self._paths) * REPEATS

    def __getitem__(self, item: int) -> tuple[np.ndarray, int]:
        """uint8 [96, 96, 3] and its label."""
        out_HWC = np.empty((SIDE, SIDE, 3), np.uint8)
        return out_HWC, self.write(item, out_HWC)

    def write(self, item: int, out_HWC: np.ndarray) -> int:
        """Decode and augment an item into `out_HWC`; its label."""
        photo = int(item) % len(self._paths)
        crop_on_host(decode_square(self._paths[photo], DECODED_SIDE), self._crops, photo, out_HWC)
        return self._labels[photo]

    def batch(self, items: Any) -> tuple[np.ndarray, np.ndarray]:
        """uint8 [B, 96, 96, 3] and int64 [B]."""
        images_BHWC = np.empty((len(items), SIDE, SIDE, 3), np.uint8)
        labels = [self.write(item, images_BHWC[place]) for place, item in enumerate(items)]
        return images_BHWC, np.array(labels, np.int64)


def order(items: Items, first: int = 0, step: int = 1) -> Iterator[int]:
    """Item numbers without end, shuffled photo by photo: any 80 in a row are all the photos."""
    photos = len(items) // REPEATS
    rng = np.random.default_rng(0)
    laps = np.concatenate([rng.permutation(photos) + photos * lap for lap in range(REPEATS)])
    at = first
    while True:
        yield int(laps[at % len(laps)])
        at += step


def batches_of(numbers: Iterator[int]) -> Iterator[list[int]]:
    """Item numbers by sixteen, without end."""
    while True:
        yield [next(numbers) for _ in range(BATCH)]


def images_per_s(batches: Iterator[Any], count: int) -> float:
    """Read `LEAD` batches, then time `count` more."""
    for _ in range(LEAD):
        next(batches)
    began = perf_counter()
    for _ in range(count):
        next(batches)
    return count * BATCH / (perf_counter() - began)
