"""Photos loaded by processes: the same batches, in memory that is made once, and on the trace when the process worked."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from labkit.data import Photos
from labkit.device.cpu import CpuDevice
from labkit.errors import KnobError
from labkit.experiments.pipeline import PipelineKnobs
from labkit.kernels.pipeline import pipeline
from labkit.metrics.stalls import account
from labkit.schedule import Elsewhere, Lane, Op, Step
from labkit.workloads.photo_batches import PhotoBatches, SharedPhotoBatches
from labkit.workloads.vision import Batch, VisionTraining

CAN_PIN = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
PLACEMENTS = [(augment, normalise) for augment in ("cpu", "gpu") for normalise in ("cpu", "gpu")]


def settings(hand, **knobs: Any) -> PipelineKnobs:
    return hand.knobs(loader="processes", workers=2, **knobs)


@pytest.fixture(scope="module")
def kept(photos: Photos, hand) -> Iterator[VisionTraining]:
    """A workload with two processes; every test begins a run of its own."""
    workload = VisionTraining(photos, settings(hand), "cpu")
    yield workload
    workload.close()


@pytest.fixture
def workload(kept: VisionTraining) -> VisionTraining:
    kept.begin()
    return kept


def batch_of(loaded: Elsewhere) -> Batch:
    """The host's batch from what a load op returns."""
    return loaded.value[0]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_threads_the_host_and_processes_make_the_same_batches_bit_for_bit(hand, make, workload, placement) -> None:
    augment_on, normalise_on = placement
    others = [make(loader="threads"), make(loader="inline")]
    for index, size in enumerate((4, 8, 2, 8)):  # a batch may grow and shrink while it runs
        knobs = settings(hand, batch_size=size, augment_on=augment_on, normalise_on=normalise_on)
        step = Step(index, knobs)
        loaded = workload.load(step, index % 2).run()
        assert type(loaded) is Elsewhere
        batch, crops = loaded.value
        for other in others:
            expected, expected_crops = other.load(step, 0).run()
            assert batch.images.dtype == expected.images.dtype
            assert torch.equal(batch.images, expected.images) and torch.equal(batch.labels_B, expected.labels_B)
            assert (crops is None) == (expected_crops is None) == (augment_on == "cpu")
            assert crops is None or np.array_equal(crops.top, expected_crops.top)


def test_the_memory_of_a_slot_is_made_once_and_filled_again(hand, workload) -> None:
    first = batch_of(workload.load(Step(0, settings(hand)), 5).run())
    before = first.images.clone()
    other_slot = batch_of(workload.load(Step(1, settings(hand)), 6).run())
    assert torch.equal(first.images, before) and not torch.equal(first.images, other_slot.images)
    again = batch_of(workload.load(Step(2, settings(hand)), 5).run())
    assert again.images.data_ptr() == first.images.data_ptr()
    assert torch.equal(first.images, again.images) and not torch.equal(first.images, before)


def test_a_batch_takes_none_of_the_shared_memory_that_a_container_limits(hand, workload) -> None:
    place = workload._processes._memory.place(7, 1 << 20)
    assert place.bytes == 1 << 20
    assert not place.path.startswith("/dev/shm")
    assert workload._processes._memory.place(7, 1 << 10) == place, "a smaller batch fits in"


@pytest.mark.parametrize("pinned", [True, False])
def test_for_a_gpu_a_batch_that_is_to_be_pinned_is_copied_to_the_pinned_buffers_of_its_slot(
    hand, make, workload, monkeypatch, pinned: bool
) -> None:
    monkeypatch.setattr(workload, "_device", torch.device("cuda"))
    step = Step(0, settings(hand, pinned=pinned))
    batch = batch_of(workload.load(step, 3).run())
    expected, _ = make().load(step, 0).run()
    assert torch.equal(batch.images, expected.images) and torch.equal(batch.labels_B, expected.labels_B)
    buffer = workload._buffers.host(3, tuple(batch.images.shape), batch.images.dtype, True)
    assert (batch.images.data_ptr() == buffer.data_ptr()) == pinned


def test_the_op_is_the_same_for_every_loader(hand, make, workload) -> None:
    step = Step(0, settings(hand))
    asked = [(op.name, op.lane, op.cost, op.step) for op in (one.load(step, 0) for one in (workload, make()))]
    assert asked[0] == asked[1]
    assert asked[0][0] == "decode+augment+normalise" and asked[0][1] == Lane("workers")


def test_a_pipeline_reads_the_losses_of_the_steps_done_by_hand_and_its_slices_are_the_processes_work(hand, photos, workload) -> None:
    expected = hand.losses(VisionTraining(photos, hand.knobs(), "cpu"), 6, hand.knobs())
    fresh = VisionTraining(photos, hand.knobs(), "cpu")
    fresh._processes = workload._processes
    knobs = settings(hand, prefetch=3)
    device = CpuDevice(widths={"workers": 2})
    seen: list[tuple[int, int]] = []
    make_batch = workload._processes.loader.make

    def watched(request: Any) -> Elsewhere:
        made = make_batch(request)
        seen.append((made.start_ns - device._epoch_ns, made.end_ns - device._epoch_ns))
        return made

    workload._processes.loader.make = watched
    try:
        pipeline(device, fresh, [Step(index, knobs) for index in range(6)])
    finally:
        del workload._processes.loader.make
    assert device.close() == []
    assert fresh.results() == {"first_loss": pytest.approx(expected[0]), "last_loss": pytest.approx(expected[-1]), "losses_read": 6}
    trace = device.recorder.finish(device.now())
    rows = trace.rows_on("workers")
    assert sorted(zip(trace["start_ns"][rows].tolist(), trace["end_ns"][rows].tolist(), strict=True)) == sorted(seen)
    for unit in account(trace):  # raises where slices of a unit overlap
        assert unit.busy_ns + sum(end - start for start, end, _ in unit.stalls) == unit.span_ns


@pytest.mark.skipif(not CAN_PIN, reason="one core, or no call to place threads")
def test_the_processes_keep_off_the_core_of_the_compute_thread(hand, workload) -> None:
    device = CpuDevice(widths={"workers": 1})
    everywhere = os.sched_getaffinity(0)
    look = device.submit(Op("look", Lane("compute"), lambda: os.sched_getaffinity(0)))
    device.wait([look])
    pids: list[int] = []
    load = workload.load(Step(0, settings(hand)), 0)

    def run() -> Any:
        made = load.run()
        pids.append(workload._processes.loader.pids[workload._processes.loader._mine.line.number])
        return made

    device.wait([device.submit(Op(load.name, load.lane, run))])
    assert device.close() == []
    threads = psutil.Process(pids[0]).threads()
    assert all(os.sched_getaffinity(thread.id) == everywhere - look.value for thread in threads)


def test_another_number_of_workers_is_refused_while_it_runs(hand, workload) -> None:
    with pytest.raises(KnobError, match="workers=3 cannot act on a run whose loader is processes: it has 2, and they are fixed"):
        workload.load(Step(0, settings(hand).changed(workers=3)), 0)


def test_photos_that_are_broken_come_back_with_the_batch_and_processes_that_died_are_started_anew(hand, few_photos) -> None:
    damaged = sorted((few_photos / "cat").iterdir())[-1]
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    workload = VisionTraining(Photos.open(few_photos), hand.knobs(loader="processes", batch_size=6), "cpu")
    try:
        for _ in range(2):
            workload.load(Step(0, hand.knobs(loader="processes", batch_size=6)), 0).run()
            assert list(workload.skipped) == [str(damaged)] and "truncated" in workload.skipped[str(damaged)]
            assert str(damaged) in workload.notes()[0]
            psutil.Process(workload._processes.loader.pids[0]).kill()
            with pytest.raises(Exception, match="was ended by SIGKILL"):
                workload.load(Step(1, hand.knobs(loader="processes")), 1).run()
            workload.begin()
            assert not workload._processes.loader.failed and workload.skipped == {}
    finally:
        workload.close()
    assert workload._processes.loader.failed and workload._processes._memory.held_bytes() == 0


def test_for_a_simulated_device_there_are_no_processes(hand, photos) -> None:
    workload = VisionTraining(photos, settings(hand, prefetch=1), "simulated")
    assert workload._processes is None
    assert workload.load(Step(0, settings(hand)), 0).lane == Lane("workers")
    workload.close()


def test_what_travels_to_a_process_is_small_and_holds_no_memory_of_a_slot(photos) -> None:
    import cloudpickle

    work = SharedPhotoBatches(PhotoBatches(photos, 96))
    assert len(cloudpickle.dumps(work)) < 100_000
