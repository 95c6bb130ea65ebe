"""Ours: the load op of the photo workload on a cpu device's two worker threads, four batches ahead, consumed by nobody else."""

from collections import deque
from collections.abc import Iterator

import torch

from labkit.device.cpu import CpuDevice
from labkit.experiments.pipeline import PipelineKnobs, prepare
from labkit.kernels.slots import Slots
from labkit.schedule import Step
from tests.bench.contender import serve
from tests.bench.contenders.items import BATCH, PREFETCH, SIDE, WORKERS, images_per_s


def batches(device: CpuDevice, workload: object, knobs: PipelineKnobs) -> Iterator[object]:
    """Loaded batches without end: the loading half of the `pipeline` kernel."""
    slots, loading = Slots(), deque()
    index = 0
    while True:
        while len(loading) < knobs.prefetch:
            slot = slots.take()
            loading.append((slot, device.submit(workload.load(Step(index, knobs), slot.number), after=slot.copied)))
            index += 1
        slot, loaded = loading.popleft()
        device.wait([loaded])
        yield loaded.value
        slots.give_back(slot, loaded, loaded)


def main() -> None:
    """One device for all turns: between them at most four batches wait."""
    torch.set_num_threads(1)
    knobs = PipelineKnobs(
        prefetch=PREFETCH, workers=WORKERS, batch_size=BATCH, image_size=SIDE, augment_on="cpu", normalise_on="gpu"
    )
    device = CpuDevice(widths={"workers": WORKERS})
    endless = batches(device, prepare(knobs, "cpu"), knobs)
    serve(lambda count: images_per_s(endless, count))
    device.close()


if __name__ == "__main__":
    main()
