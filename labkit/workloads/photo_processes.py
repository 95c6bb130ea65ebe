"""Batches of photos made in loader processes, each in the shared memory of its slot."""

from typing import NamedTuple

import torch

from labkit.schedule import Elsewhere
from labkit.workloads.photo_batches import BatchRequest, PhotoBatches, SharedPhotoBatches, SharedRequest
from labkit.workloads.process_loader import ProcessLoader
from labkit.workloads.shared_buffers import SharedBuffers


class Made(NamedTuple):
    """A batch that a process has made. `work.value` is what it skipped, path → reason."""

    work: Elsewhere
    images: torch.Tensor
    labels_B: torch.Tensor


class PhotoProcesses:
    """`workers` processes that make batches, and the memory that they make them in."""

    def __init__(self, batches: PhotoBatches, workers: int):
        self.loader = ProcessLoader(SharedPhotoBatches(batches), workers)
        self._batches = batches
        self._seen = SharedPhotoBatches(batches)
        self._memory = SharedBuffers()

    def make(self, request: BatchRequest, slot: int) -> Made:
        """Have a batch made in the memory of `slot`, and wait for it. From a lane's thread; raises as `ProcessLoader.make` does."""
        asked = SharedRequest(request, self._memory.place(slot, self._seen.bytes(request)))
        return Made(self.loader.make(asked), *self._seen.tensors(asked))

    def restart_if_failed(self) -> None:
        """Start new processes where the ones that there were have died."""
        if self.loader.failed:
            self.loader.close()
            self.loader = ProcessLoader(SharedPhotoBatches(self._batches), self.loader.workers)

    def close(self) -> None:
        """End the processes and give the memory back."""
        self.loader.close()
        self._memory.close()
