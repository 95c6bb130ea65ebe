"""Photos → a residual CNN: decode, crop and flip, normalise, copy, forward, backward, update, log.

The knobs decide on which side a stage runs. What runs on the host side is one op on a worker (as a data loader's worker
does a batch), named by what it does: "decode", "decode+augment", "decode+augment+normalise". What runs on the device side are ops
of the compute lane. Whoever loads, a thread, a process or the host itself, runs the same code (`photo_batches.py`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labkit.data.photos import Photos
from labkit.schedule import HOST, Cost, Elsewhere, Op, Step
from labkit.workloads.buffers import Buffers
from labkit.workloads.footprint import footprint, training_state_bytes
from labkit.workloads.images import Crops, augment, normalise
from labkit.workloads.models import ResidualCNN
from labkit.workloads.photo_batches import BatchRequest, PhotoBatches, photo_notes
from labkit.workloads.photo_processes import PhotoProcesses
from labkit.workloads.training import COMPUTE, H2D, WORKERS, Training, epochs

LEARNING_RATE = 0.01


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch on one side: images uint8 [B, H, W, 3] or float32 [B, 3, H, W], labels int64 [B]."""

    images: torch.Tensor
    labels_B: torch.Tensor


class VisionTraining(Training):
    """A `TrainingWorkload` over a folder of photos.

    photos  the data; knobs, the cold ones: image_size, model, seed, loader, and workers where processes load; where, the device
    it will run on: "cpu", "cuda:0", "simulated"
    """

    def __init__(self, photos: Photos, knobs: Any, where: str):
        self.photos = photos
        self.batches = PhotoBatches(photos, knobs.image_size)
        self._seed = knobs.seed
        self._load_lane = HOST if knobs.loader == "inline" else WORKERS
        self._real = where != "simulated"
        self._device = torch.device(where if self._real else "meta")
        self._model_name = knobs.model
        self._footprints: dict[tuple[str, int], Cost] = {}
        self._buffers = Buffers(self._device)
        self._pixels = photos.sizes_wh.astype(np.int64).prod(axis=1)
        self._processes: PhotoProcesses | None = None
        if self._real:
            torch.manual_seed(knobs.seed)
            self.model = ResidualCNN(knobs.model, len(photos.class_names)).to(self._device)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE, momentum=0.9, foreach=True)
            if knobs.loader == "processes":
                self._processes = PhotoProcesses(self.batches, knobs.workers)
        self.begin()

    def begin(self) -> None:
        """A new run starts: the order of images from the beginning, no losses read, none skipped. Weights are kept."""
        super().begin()
        self._order = epochs(len(self.photos), self._seed)
        self.skipped: dict[str, str] = {}
        if self._processes is not None:
            self._processes.restart_if_failed()

    def close(self) -> None:
        """End the loader's processes."""
        if self._processes is not None:
            self._processes.close()

    # ---- stages -------------------------------------------------------------------------------------------

    def load(self, step: Step, slot: int) -> Op:
        """The photos of the step, as far as the host prepares them, in the host buffer of `slot`."""
        knobs, size = step.knobs, step.knobs.batch_size
        chosen = np.fromiter((next(self._order) for _ in range(size)), np.int64, size)
        crops = Crops.draw((self._seed, step.index), size, self.batches.decoded_side - self.batches.side)
        request = BatchRequest(chosen, crops, _host_stages(knobs))
        cost = Cost(bytes=self._host_bytes(request.stages, size), jpeg_pixels=int(self._pixels[chosen].sum()))
        pinned, device_crops = knobs.pinned, None if knobs.augment_on == "cpu" else crops

        def run() -> tuple[Batch, Crops | None]:
            return self._loaded_here(request, pinned, slot), device_crops

        def run_elsewhere() -> Elsewhere:
            work, batch = self._loaded_elsewhere(request, pinned, slot)
            return work._replace(value=(batch, device_crops))

        load = run
        if self._processes is not None:
            self._processes.loader.check_workers(knobs.workers)
            load = run_elsewhere
        return self.op("+".join(request.stages), self._load_lane, load, cost, step)

    def copy(self, step: Step, slot: int) -> Op:
        """Images and labels into the device buffers of `slot`."""
        knobs, size = step.knobs, step.knobs.batch_size
        shape, dtype = self.batches.form(_host_stages(knobs), size)
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
        """What this step's knobs leave for the device: augment, normalise."""
        knobs, size, side = step.knobs, step.knobs.batch_size, self.batches.side
        ops = []
        if knobs.augment_on == "gpu":
            item_bytes = 3 * size * (4 if knobs.normalise_on == "cpu" else 1)

            def run_augment(copied: tuple[Batch, Crops]) -> tuple[Batch, None]:
                batch, crops = copied
                return Batch(augment(batch.images, crops, side), batch.labels_B), None

            cost = Cost(bytes=item_bytes * (self.batches.decoded_side**2 + side**2), launches=12)
            ops.append(self.op("augment", COMPUTE, run_augment, cost, step))
        if knobs.normalise_on == "gpu":

            def run_normalise(copied: tuple[Batch, None]) -> tuple[Batch, None]:
                batch, _ = copied
                return Batch(normalise(batch.images), batch.labels_B), None

            cost = Cost(bytes=3 * size * side**2 * (1 + 5 * 4), launches=5)
            ops.append(self.op("normalise", COMPUTE, run_normalise, cost, step))
        return ops

    def loss_of(self, prepared: tuple[Batch, None]) -> torch.Tensor:
        """Cross entropy of the classes."""
        batch, _ = prepared
        return torch.nn.functional.cross_entropy(self.model(batch.images), batch.labels_B)

    def stage_cost(self, stage: str, size: int) -> Cost:
        """Counted on meta tensors, once for a batch size."""
        known = self._footprints.get((stage, size))
        if known is None:
            classes, side = len(self.photos.class_names), self.batches.side
            self._footprints |= _training_footprints(self._model_name, classes, size, side)
            known = self._footprints[stage, size]
        return known

    # ---- what is said about it ----------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """The photos that could not be read or decoded."""
        return photo_notes(self.photos, self.skipped)

    # ---- inside -------------------------------------------------------------------------------------------

    def _loaded_here(self, request: BatchRequest, pinned: bool, slot: int) -> Batch:
        """The batch, made in this thread."""
        batch = self._host_buffers(request, pinned, slot)
        self.skipped.update(self.batches.fill(request, batch.images, batch.labels_B))
        return batch

    def _loaded_elsewhere(self, request: BatchRequest, pinned: bool, slot: int) -> tuple[Elsewhere, Batch]:
        """The batch, made in a process; for a GPU then copied to pinned memory, as a DataLoader that pins does."""
        assert self._processes is not None
        work, images, labels_B = self._processes.make(request, slot)
        self.skipped.update(work.value)
        if not (pinned and self._device.type == "cuda"):
            return work, Batch(images, labels_B)
        batch = self._host_buffers(request, pinned, slot)
        batch.images.copy_(images)
        batch.labels_B.copy_(labels_B)
        return work, batch

    def _host_buffers(self, request: BatchRequest, pinned: bool, slot: int) -> Batch:
        size = len(request.chosen)
        images = self._buffers.host(slot, *self.batches.form(request.stages, size), pinned)
        return Batch(images, self._buffers.host(-1 - slot, (size,), torch.int64, pinned))

    def _host_bytes(self, stages: tuple[str, ...], size: int) -> int:
        pixels = 3 * size * self.batches.side**2
        return (2 * pixels if "augment" in stages else 0) + (21 * pixels if "normalise" in stages else 0)


def _host_stages(knobs: Any) -> tuple[str, ...]:
    augment_here = ("augment",) if knobs.augment_on == "cpu" else ()
    normalise_here = ("normalise",) if knobs.normalise_on == "cpu" else ()
    return ("decode", *augment_here, *normalise_here)


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
    state = training_state_bytes(model, optimizer)
    resident = {"forward": state + forward.resident, "backward": state + forward.resident, "update": state}
    costs = {"forward": forward, "backward": backward, "update": update}
    return {(stage, size): cost._replace(resident=resident[stage]) for stage, cost in costs.items()}
