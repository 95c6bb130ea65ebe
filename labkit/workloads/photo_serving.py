"""Photos → classes, one request a photo: decode, normalise, copy, classify, answers to the host.

`preprocess_on` decides where bytes become floats. The requests of a batch are decoded by one op on a worker. Weights are random: what
is measured is the work, not the answers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labkit.data.photos import Photos
from labkit.schedule import Cost, Handle, Lane, Op, Request, Step
from labkit.workloads.buffers import Buffers
from labkit.workloads.footprint import footprint
from labkit.workloads.images import Crops, normalise
from labkit.workloads.models import ResidualCNN
from labkit.workloads.photo_batches import BatchRequest, PhotoBatches, photo_notes
from labkit.workloads.workload import Workload

WORKERS, H2D, COMPUTE, D2H = Lane("workers"), Lane("h2d"), Lane("compute"), Lane("d2h")
LABEL_BYTES = 8
MOST_WARMED = 32


class PhotoServing(Workload):
    """A `ServingWorkload` over a folder of photos.

    photos  what is asked for; knobs, the cold ones: image_size, model_size, seed; where, the device it will run on: "cpu", "cuda:0",
            "simulated"
    """

    def __init__(self, photos: Photos, knobs: Any, where: str):
        super().__init__()
        self.photos = photos
        self.batches = PhotoBatches(photos, knobs.image_size)
        self._real = where != "simulated"
        self._device = torch.device(where if self._real else "meta")
        self._size = knobs.model_size
        self._seed = knobs.seed
        self._buffers = Buffers(self._device)
        self._pixels = photos.sizes_wh.astype(np.int64).prod(axis=1)
        self._costs = {count: self._counted_cost(count) for count in (1, 2, 3)}
        if self._real:
            torch.manual_seed(knobs.seed)
            self.model = ResidualCNN(knobs.model_size, len(photos.class_names)).to(self._device).eval()
            self._warm_up(knobs.max_batch)
        self.begin()

    def begin(self) -> None:
        """A new run starts: the same order of photos, none skipped, nothing classified."""
        super().begin()
        self._order = np.random.default_rng(self._seed).permutation(len(self.photos))
        self._skipped: dict[str, str] = {}
        self._classified = 0

    def length(self, request: Request) -> int:
        """Photos are decoded to one size: there is nothing to pad."""
        return 1

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> list[Op]:
        """Decode (and normalise) on a worker, copy, (normalise,) classify, answers to the host."""
        chosen = np.array([self._order[request.id % len(self._order)] for request, _ in requests], np.int64)
        count, side = len(chosen), self.batches.decoded_side
        on_host = ("decode", "normalise") if step.knobs.preprocess_on == "cpu" else ("decode",)
        shape, dtype = self.batches.form(on_host, count)
        pixels = 3 * count * side**2
        nothing_cut = Crops(*(np.zeros(count, np.int64),) * 3)

        def load() -> torch.Tensor:
            images = self._buffers.host(slot, shape, dtype, pinned=True)
            labels_B = torch.empty(count, dtype=torch.int64)
            self._skipped.update(self.batches.fill(BatchRequest(chosen, nothing_cut, on_host), images, labels_B))
            return images

        def copy(loaded: torch.Tensor) -> torch.Tensor:
            images = self._buffers.on_device(slot, shape, dtype)
            images.copy_(loaded, non_blocking=True)
            return images

        decoding = Cost(bytes=21 * pixels if len(on_host) == 2 else 0, jpeg_pixels=int(self._pixels[chosen].sum()))
        ops = [
            self.op("+".join(on_host), WORKERS, load, decoding, step),
            self.op("copy", H2D, copy, Cost(bytes=int(np.prod(shape)) * dtype.itemsize), step),
        ]
        if len(on_host) == 1:
            ops.append(self.op("normalise", COMPUTE, normalise, Cost(bytes=pixels * (1 + 5 * 4), launches=5), step))
        ops.append(self.op("classify", COMPUTE, self._classify, self._cost(count), step))
        ops.append(self.op("answers", D2H, _to_host, Cost(bytes=LABEL_BYTES * count), step, items=count))
        return ops

    def answered(self, step: Step, requests: Sequence[Request], answers: Handle) -> None:
        """Counts them."""
        self._classified += len(requests)

    def notes(self) -> list[str]:
        """The photos that could not be read or decoded."""
        return photo_notes(self.photos, self._skipped)

    def results(self) -> dict[str, Any]:
        """How many photos were classified."""
        return {"classified": self._classified}

    def _warm_up(self, max_batch: int) -> None:
        """Classify a batch of every size once: the first of a size takes many times as long, and those who wait behind it as well."""
        side = self.batches.decoded_side
        for count in range(1, min(max_batch, MOST_WARMED) + 1):
            self._classify(torch.zeros(count, 3, side, side, device=self._device)).tolist()

    def _classify(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        """Classes int64 [N] of images float32 [N, 3, H, W]."""
        with torch.inference_mode():
            return self.model(images_NCHW).argmax(dim=1)

    def _cost(self, count: int) -> Cost:
        """Of classifying so many. From two on every operator's FLOP and bytes are a + b · count, and counting is not for while requests wait."""
        if count in self._costs:
            return self._costs[count]
        two, three = self._costs[2], self._costs[3]
        return two._replace(flop=two.flop + (count - 2) * (three.flop - two.flop), bytes=two.bytes + (count - 2) * (three.bytes - two.bytes))

    def _counted_cost(self, count: int) -> Cost:
        """Counted on meta tensors: nothing is computed."""
        with torch.device("meta"):
            model = ResidualCNN(self._size, len(self.photos.class_names)).eval()
            images_NCHW = torch.empty(count, 3, self.batches.decoded_side, self.batches.decoded_side)
        with torch.no_grad():
            return footprint(lambda: model(images_NCHW).argmax(dim=1))[0]


def _to_host(classes_N: torch.Tensor) -> list[int]:
    return classes_N.tolist()
