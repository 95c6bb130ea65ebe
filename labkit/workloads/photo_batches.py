"""Photos → the pixels of a batch on the host: decode, crop and flip, normalise. The same code for every kind of loader.

A worker thread and the host itself call `PhotoBatches.fill` on a slot's buffer, a loader process calls it by way of
`SharedPhotoBatches` on memory that it shares with the process that trains.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from labkit.data.decode import decode_square
from labkit.data.photos import Photos
from labkit.errors import BrokenImage, DataError
from labkit.workloads.images import Crops, crop_on_host, normalise
from labkit.workloads.shared_buffers import Mapped, Place

_ALIGNED_TO = 64


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch to be made: which photos, int64 [B], where each is cut, and what is done on the host ("decode", ...)."""

    chosen: np.ndarray
    crops: Crops
    stages: tuple[str, ...]


@dataclass(frozen=True)
class PhotoBatches:
    """Makes batches of photos, `side` pixels wide and high once they are cropped. Can be copied to another process."""

    photos: Photos
    side: int

    @property
    def decoded_side(self) -> int:
        """The side of the square that a crop is cut from."""
        return self.side + max(self.side // 8, 2)

    def form(self, stages: tuple[str, ...], size: int) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype of the images of a batch once these stages are done."""
        side = self.side if "augment" in stages else self.decoded_side
        if "normalise" in stages:
            return (size, 3, side, side), torch.float32
        return (size, side, side, 3), torch.uint8

    def fill(self, request: BatchRequest, images: torch.Tensor, labels_B: torch.Tensor) -> dict[str, str]:
        """Make a batch in tensors of its form; the photos that could not be decoded, path → reason. Raises DataError."""
        stages, side, skipped = request.stages, self.decoded_side, {}
        cut, normalised = "augment" in stages, "normalise" in stages
        cut_side = self.side if cut else side
        decoded = torch.empty((len(images), cut_side, cut_side, 3), dtype=torch.uint8) if normalised else images
        decoded_BHWC, labels = decoded.numpy(), labels_B.numpy()
        scratch_HWC = np.empty((side, side, 3), np.uint8) if cut else None
        for place, index in enumerate(request.chosen.tolist()):
            target = decoded_BHWC[place] if scratch_HWC is None else scratch_HWC
            labels[place] = self._decode(index, target, skipped)
            if scratch_HWC is not None:
                crop_on_host(scratch_HWC, request.crops, place, decoded_BHWC[place])
        if normalised:
            normalise(decoded, images)
        return skipped

    def _decode(self, index: int, out_HWC: np.ndarray, skipped: dict[str, str]) -> int:
        """Decode photo `index`, or the next one that can be decoded; its label."""
        photos = self.photos
        for attempt in range(len(photos)):
            at = (index + attempt) % len(photos)
            try:
                decode_square(photos.paths[at], self.decoded_side, out=out_HWC)
                return int(photos.labels[at])
            except BrokenImage as error:
                skipped[error.path] = error.reason
        first = next(iter(skipped.items()))
        raise DataError(f"none of the {len(photos)} photos in {photos.folder} can be decoded: {first}")


class SharedRequest(NamedTuple):
    """A batch to be made in shared memory."""

    batch: BatchRequest
    place: Place


class SharedPhotoBatches:
    """The work of a loader process: batches in shared memory, where the process that trains finds them."""

    def __init__(self, batches: PhotoBatches):
        self.batches = batches
        self._mapped = Mapped()

    def __call__(self, request: SharedRequest) -> dict[str, str]:
        """Make a batch in its place; the photos that could not be decoded, path → reason. Raises DataError."""
        return self.batches.fill(request.batch, *self.tensors(request))

    def bytes(self, request: BatchRequest) -> int:
        """How much room a batch needs."""
        shape, dtype = self.batches.form(request.stages, len(request.chosen))
        return _aligned(8 * len(request.chosen)) + math.prod(shape) * dtype.itemsize

    def tensors(self, request: SharedRequest) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of a batch in its place, whoever asks."""
        size = len(request.batch.chosen)
        shape, dtype = self.batches.form(request.batch.stages, size)
        memory = self._mapped.memory(request.place)
        images = memory[_aligned(8 * size) : self.bytes(request.batch)].view(dtype).view(shape)
        return images, memory[: 8 * size].view(torch.int64)


def photo_notes(photos: Photos, skipped: dict[str, str]) -> list[str]:
    """In words: the photos that could not be read when the folder was opened, and those that could not be decoded (path → reason)."""
    notes = []
    if photos.broken:
        notes.append(f"{len(photos.broken)} unreadable files were left out: {'; '.join(photos.broken[:3])}")
    if skipped:
        first = "; ".join(f"{path}: {reason}" for path, reason in list(skipped.items())[:3])
        notes.append(f"{len(skipped)} images could not be decoded and were replaced by the next: {first}")
    return notes


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED_TO) * _ALIGNED_TO
