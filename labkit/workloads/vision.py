"""Photos → a residual CNN: decode, crop and flip, normalise, copy, forward, backward, update, log.

The knobs decide on which side a stage runs. What runs on the host side is one op on a worker (as a data loader's worker
does a batch), named by what it does: "decode", "decode+augment", "decode+augment+normalise". What runs on the device side are ops
of the compute lane.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch

from labkit.data.decode import decode_square
from labkit.data.photos import Photos
from labkit.errors import BrokenImage, DataError
from labkit.schedule import HOST, Cost, Handle, Lane, Op, Step
from labkit.workloads.buffers import Buffers
from labkit.workloads.footprint import footprint
from labkit.workloads.images import Crops, augment, crop_on_host, normalise
from labkit.workloads.models import ResidualCNN
from labkit.workloads.workload import Workload

WORKERS, H2D, COMPUTE, D2H = Lane("workers"), Lane("h2d"), Lane("compute"), Lane("d2h")
LEARNING_RATE = 0.01


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch on one side: images uint8 [B, H, W, 3] or float32 [B, 3, H, W], labels int64 [B]."""

    images: torch.Tensor
    labels_B: torch.Tensor


class VisionTraining(Workload):
    """A `TrainingWorkload` over a folder of photos.

    photos  the data; knobs, the cold ones: image_size, model, seed, loader; where, the device it will run on:
    "cpu", "cuda:0", "simulated"
    """

    def __init__(self, photos: Photos, knobs: Any, where: str):
        self.photos = photos
        self.side = knobs.image_size
        self.decoded_side = self.side + max(self.side // 8, 2)
        self._seed = knobs.seed
        self._load_lane = HOST if knobs.loader == "inline" else WORKERS
        self._real = where != "simulated"
        self._device = torch.device(where if self._real else "meta")
        self._model_name = knobs.model
        self._footprints: dict[tuple[str, int], Cost] = {}
        self._buffers = Buffers(self._device)
        self._pixels = photos.sizes_wh.astype(np.int64).prod(axis=1)
        if self._real:
            torch.manual_seed(knobs.seed)
            self.model = ResidualCNN(knobs.model, len(photos.class_names)).to(self._device)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE, momentum=0.9, foreach=True)
        self.begin()

    def begin(self) -> None:
        """A new run starts: the order of images from the beginning, no losses read, none skipped. Weights are kept."""
        super().begin()
        self._order = _epochs(len(self.photos), self._seed)
        self.skipped: dict[str, str] = {}
        self._first_loss: float | None = None
        self._last_loss: float | None = None
        self._losses_read = 0

    # ---- stages -------------------------------------------------------------------------------------------

    def load(self, step: Step, slot: int) -> Op:
        knobs, size = step.knobs, step.knobs.batch_size
        chosen = np.fromiter((next(self._order) for _ in range(size)), np.int64, size)
        crops = Crops.draw((self._seed, step.index), size, self.decoded_side - self.side)
        stages = _host_stages(knobs)
        pixels = int(self._pixels[chosen].sum())
        cost = Cost(bytes=self._host_bytes(stages, size), jpeg_pixels=pixels)
        pinned, device_crops = knobs.pinned, None if knobs.augment_on == "cpu" else crops

        def run() -> tuple[Batch, Crops | None]:
            images = self._buffers.host(slot, *self._form(stages, size), pinned)
            return self._load_batch(stages, chosen, crops, images, pinned, slot), device_crops

        return self.op("+".join(stages), self._load_lane, run, cost, step)

    def copy(self, step: Step, slot: int) -> Op:
        knobs, size = step.knobs, step.knobs.batch_size
        shape, dtype = self._form(_host_stages(knobs), size)
        cost = Cost(bytes=int(np.prod(shape)) * dtype.itemsize + 8 * size, pageable=not knobs.pinned)
        non_blocking = knobs.non_blocking

        def run(loaded: tuple[Batch, Crops | None]) -> tuple[Batch, Crops | None]:
            batch, crops = loaded
            images = self._buffers.on_device(2 * slot, shape, dtype)
            labels_B = self._buffers.on_device(2 * slot + 1, (size,), torch.int64)
            images.copy_(batch.images, non_blocking=non_blocking)
            labels_B.copy_(batch.labels_B, non_blocking=non_blocking)
            return Batch(images, labels_B), crops

        lane = H2D if knobs.copy_stream == "own" else COMPUTE
        return self.op("copy", lane, run, cost, step, blocking=not non_blocking)

    def prepare(self, step: Step) -> list[Op]:
        knobs, size, side = step.knobs, step.knobs.batch_size, self.side
        ops = []
        if knobs.augment_on == "gpu":
            item_bytes = 3 * size * (4 if knobs.normalise_on == "cpu" else 1)

            def run_augment(copied: tuple[Batch, Crops]) -> tuple[Batch, None]:
                batch, crops = copied
                return Batch(augment(batch.images, crops, side), batch.labels_B), None

            cost = Cost(bytes=item_bytes * (self.decoded_side**2 + side**2), launches=12)
            ops.append(self.op("augment", COMPUTE, run_augment, cost, step))
        if knobs.normalise_on == "gpu":

            def run_normalise(copied: tuple[Batch, None]) -> tuple[Batch, None]:
                batch, _ = copied
                return Batch(normalise(batch.images), batch.labels_B), None

            cost = Cost(bytes=3 * size * side**2 * (1 + 5 * 4), launches=5)
            ops.append(self.op("normalise", COMPUTE, run_normalise, cost, step))
        return ops

    def forward(self, step: Step) -> Op:
        def run(prepared: tuple[Batch, None]) -> torch.Tensor:
            batch, _ = prepared
            return torch.nn.functional.cross_entropy(self.model(batch.images), batch.labels_B)

        return self.op("forward", COMPUTE, run, self._footprint("forward", step.knobs.batch_size), step)

    def backward(self, step: Step) -> Op:
        def run(loss: torch.Tensor) -> None:
            loss.backward()

        return self.op("backward", COMPUTE, run, self._footprint("backward", step.knobs.batch_size), step)

    def update(self, step: Step) -> Op:
        def run(_: None) -> None:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)

        size = step.knobs.batch_size
        return self.op("update", COMPUTE, run, self._footprint("update", size), step, items=size)

    def log(self, step: Step) -> Op:
        def run(loss: torch.Tensor) -> torch.Tensor:
            return loss.detach().to("cpu", non_blocking=True)

        return self.op("log", D2H, run, Cost(bytes=4), step, blocking=step.knobs.log_sync)

    def logged(self, step: Step, log: Handle) -> None:
        loss = log.value
        if loss is not None:
            self._last_loss = float(loss)
            self._first_loss = self._last_loss if self._first_loss is None else self._first_loss
            self._losses_read += 1

    # ---- what is said about it ----------------------------------------------------------------------------

    def notes(self) -> list[str]:
        notes = []
        if self.photos.broken:
            notes.append(f"{len(self.photos.broken)} unreadable files were left out: {'; '.join(self.photos.broken[:3])}")
        if self.skipped:
            first = "; ".join(f"{path}: {reason}" for path, reason in list(self.skipped.items())[:3])
            notes.append(f"{len(self.skipped)} images could not be decoded and were replaced by the next: {first}")
        return notes

    def results(self) -> dict[str, Any]:
        return {"first_loss": self._first_loss, "last_loss": self._last_loss, "losses_read": self._losses_read}

    # ---- inside -------------------------------------------------------------------------------------------

    def _form(self, stages: list[str], size: int) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype of a batch once the host's stages are done."""
        side = self.side if "augment" in stages else self.decoded_side
        if "normalise" in stages:
            return (size, 3, side, side), torch.float32
        return (size, side, side, 3), torch.uint8

    def _host_bytes(self, stages: list[str], size: int) -> int:
        pixels = 3 * size * self.side**2
        return (2 * pixels if "augment" in stages else 0) + (21 * pixels if "normalise" in stages else 0)

    def _load_batch(
        self, stages: list[str], chosen: np.ndarray, crops: Crops, images: torch.Tensor, pinned: bool, slot: int
    ) -> Batch:
        size = len(chosen)
        side = self.side if "augment" in stages else self.decoded_side
        normalised = "normalise" in stages
        decoded = torch.empty((size, side, side, 3), dtype=torch.uint8) if normalised else images
        labels = self._buffers.host(-1 - slot, (size,), torch.int64, pinned)
        decoded_BHWC, labels_B = decoded.numpy(), labels.numpy()
        scratch_HWC = np.empty((self.decoded_side, self.decoded_side, 3), np.uint8) if "augment" in stages else None
        for place, index in enumerate(chosen.tolist()):
            target = decoded_BHWC[place] if scratch_HWC is None else scratch_HWC
            labels_B[place] = self._decode(index, target)
            if scratch_HWC is not None:
                crop_on_host(scratch_HWC, crops, place, decoded_BHWC[place])
        if normalised:
            normalise(decoded, images)
        return Batch(images, labels)

    def _decode(self, index: int, out_HWC: np.ndarray) -> int:
        """Decode photo `index`, or the next one that can be decoded; its label."""
        total = len(self.photos)
        for attempt in range(total):
            at = (index + attempt) % total
            try:
                decode_square(self.photos.paths[at], self.decoded_side, out=out_HWC)
                return int(self.photos.labels[at])
            except BrokenImage as error:
                self.skipped[error.path] = error.reason
        raise DataError(f"none of the {total} photos in {self.photos.folder} can be decoded: {next(iter(self.skipped.items()))}")

    def _footprint(self, stage: str, size: int) -> Cost:
        known = self._footprints.get((stage, size))
        if known is None:
            self._footprints |= _training_footprints(self._model_name, len(self.photos.class_names), size, self.side)
            known = self._footprints[stage, size]
        return known


def _host_stages(knobs: Any) -> list[str]:
    stages = ["decode"]
    if knobs.augment_on == "cpu":
        stages.append("augment")
    if knobs.normalise_on == "cpu":
        stages.append("normalise")
    return stages


def _training_footprints(model_name: str, classes: int, size: int, side: int) -> dict[tuple[str, int], Cost]:
    """The cost of forward, backward and update for one batch size, counted on meta tensors."""
    with torch.device("meta"):
        model = ResidualCNN(model_name, classes)
        images_NCHW = torch.empty(size, 3, side, side)
        labels_N = torch.empty(size, dtype=torch.int64)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, foreach=True)
    forward, loss = footprint(lambda: torch.nn.functional.cross_entropy(model(images_NCHW), labels_N))
    backward, _ = footprint(loss.backward)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step()  # the first one allocates the momenta
    update, _ = footprint(step)
    return {("forward", size): forward, ("backward", size): backward, ("update", size): update}


def _epochs(total: int, seed: int) -> Iterator[int]:
    """Indices in a new seeded order every epoch, without end."""
    for epoch in count():
        yield from np.random.default_rng((seed, epoch)).permutation(total).tolist()
