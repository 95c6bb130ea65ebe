"""Training on real photos: the side a stage runs on changes where time goes and never a single bit of what is computed."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from labkit.data import Photos, decode_square
from labkit.device.cpu import CpuDevice
from labkit.device.machine import load_machine
from labkit.device.simulated import SimulatedDevice
from labkit.kernels.pipeline import pipeline
from labkit.schedule import Step
from labkit.workloads.images import Crops, normalise
from labkit.workloads.vision import VisionTraining

SIDE, DECODED, BATCH = 32, 36, 4
NAMES = {
    ("cpu", "cpu"): ["decode+augment+normalise", "copy", "forward", "backward", "update", "log"],
    ("cpu", "gpu"): ["decode+augment", "copy", "normalise", "forward", "backward", "update", "log"],
    ("gpu", "cpu"): ["decode+normalise", "copy", "augment", "forward", "backward", "update", "log"],
    ("gpu", "gpu"): ["decode", "copy", "augment", "normalise", "forward", "backward", "update", "log"],
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums are added up in the same order in every lane thread and here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def placed(hand, placement: tuple[str, str], **knobs):
    return hand.knobs(augment_on=placement[0], normalise_on=placement[1], **knobs)


# ---- the same values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", [("cpu", "gpu"), ("gpu", "cpu"), ("gpu", "gpu")])
def test_a_prepared_batch_is_the_same_bit_for_bit_wherever_it_was_prepared(hand, make, placement):
    on_host, elsewhere = make(), make()
    for index in range(3):
        first = hand.prepared(on_host, Step(index, placed(hand, ("cpu", "cpu"))))
        second = hand.prepared(elsewhere, Step(index, placed(hand, placement)))
        assert first.images.shape == (BATCH, 3, SIDE, SIDE) and first.images.dtype == torch.float32
        assert torch.equal(first.images, second.images) and torch.equal(first.labels_B, second.labels_B)
        assert first.images.is_contiguous() and second.images.is_contiguous()


def test_a_prepared_batch_is_the_photos_in_their_order_cropped_and_normalised(hand, make, photos: Photos):
    workload = make(seed=7)
    order = np.random.default_rng((7, 0)).permutation(len(photos))
    for index in range(2):
        batch = hand.prepared(workload, Step(index, placed(hand, ("gpu", "gpu"))))
        chosen = order[BATCH * index : BATCH * (index + 1)]
        crops = Crops.draw((7, index), BATCH, DECODED - SIDE)
        for place, photo in enumerate(chosen):
            top, left = crops.top[place], crops.left[place]
            image = decode_square(photos.paths[photo], DECODED)[top : top + SIDE, left : left + SIDE]
            image = image[:, ::-1].copy() if crops.flip[place] else image
            assert torch.equal(batch.images[place], normalise(torch.from_numpy(image)[None])[0])
        assert batch.labels_B.tolist() == photos.labels[chosen].tolist()


def test_the_same_seed_gives_the_same_losses_and_another_seed_others(hand, make):
    first, again, other = (hand.losses(make(seed=seed), 4, hand.knobs(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert all(one != another for one, another in zip(first, other, strict=True))
    assert all(np.isfinite(first))


@pytest.mark.parametrize("placement", [("cpu", "gpu"), ("gpu", "cpu"), ("gpu", "gpu")])
def test_the_losses_do_not_depend_on_the_placement(hand, make, placement):
    assert hand.losses(make(), 3, placed(hand, placement)) == hand.losses(make(), 3, placed(hand, ("cpu", "cpu")))


def test_training_learns(hand, few_photos):
    """Six photos are learnt by heart in a few steps."""
    workload = VisionTraining(Photos.open(few_photos), hand.knobs(), "cpu")
    losses = hand.losses(workload, 24, hand.knobs(batch_size=6))
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


def test_every_photo_comes_once_an_epoch_in_an_order_that_changes(hand, make, photos: Photos):
    workload = make()
    knobs = hand.knobs(batch_size=len(photos), augment_on="gpu", normalise_on="gpu")
    pixels = [workload.load(Step(epoch, knobs), 0).cost.jpeg_pixels for epoch in range(3)]
    assert set(pixels) == {int(photos.sizes_wh.astype(np.int64).prod(axis=1).sum())}
    order = [next(workload._order) for _ in range(2 * len(photos))]
    first, second = order[: len(photos)], order[len(photos) :]
    assert sorted(first) == sorted(second) == list(range(len(photos))) and first != second


def test_a_new_run_begins_with_the_same_photos_and_keeps_the_weights(hand, make):
    workload = make()
    first = [hand.prepared(workload, Step(index, hand.knobs())).images.clone() for index in range(2)]
    before = hand.losses(workload, 3, hand.knobs())
    workload.begin()
    assert workload.results() == {"first_loss": None, "last_loss": None, "losses_read": 0}
    assert workload.costs == {}
    again = [hand.prepared(workload, Step(index, hand.knobs())).images.clone() for index in range(2)]
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    workload.begin()
    assert hand.losses(workload, 3, hand.knobs()) != before


def test_the_losses_that_were_read_are_the_results(hand, make):
    workload = make()
    losses = hand.losses(workload, 3, hand.knobs())
    assert workload.results() == {"first_loss": losses[0], "last_loss": losses[-1], "losses_read": 3}


# ---- ops and their costs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", list(NAMES))
def test_what_the_host_does_is_one_op_named_by_it_and_the_rest_are_ops_of_compute(hand, make, placement):
    ops = hand.ops(make(), Step(3, placed(hand, placement)))
    assert [op.name for op in ops] == NAMES[placement]
    roles = [op.lane.role for op in ops]
    assert roles == ["workers", "h2d", *["compute"] * (len(ops) - 3), "d2h"]
    assert {op.step for op in ops} == {3}
    assert [op.name for op in ops if op.items] == ["update"] and sum(op.items for op in ops) == BATCH


def test_knobs_say_on_which_lane_and_whether_the_host_is_held(hand, make):
    def ops(**knobs):
        return {op.name.partition("+")[0]: op for op in hand.ops(make(**knobs), Step(0, hand.knobs(**knobs)))}

    assert ops(loader="inline")["decode"].lane.role == "host"
    assert ops(copy_stream="compute")["copy"].lane.role == "compute"
    assert [ops(non_blocking=flag)["copy"].blocking for flag in (True, False)] == [False, True]
    assert [ops(log_sync=flag)["log"].blocking for flag in (True, False)] == [True, False]
    assert [ops(pinned=flag)["copy"].cost.pageable for flag in (True, False)] == [False, True]


@pytest.mark.parametrize(
    ("placement", "host", "copied"),
    [
        (("gpu", "gpu"), 0, DECODED**2 * 3),
        (("cpu", "gpu"), 2 * SIDE**2 * 3, SIDE**2 * 3),
        (("cpu", "cpu"), (2 + 21) * SIDE**2 * 3, SIDE**2 * 3 * 4),
    ],
)
def test_the_bytes_of_loading_and_copying_are_those_of_the_tensors(hand, make, placement, host: int, copied: int):
    load, copy, *_ = hand.ops(make(), Step(0, placed(hand, placement)))
    assert load.cost.bytes == BATCH * host
    assert copy.cost.bytes == BATCH * copied + 8 * BATCH, "images, and labels of 8 bytes"
    (batch, _crops) = load.run()
    assert batch.images.nbytes + batch.labels_B.nbytes == copy.cost.bytes


def test_the_pixels_to_decode_are_those_of_the_photos_chosen(hand, make, photos: Photos):
    chosen = np.random.default_rng((0, 0)).permutation(len(photos))[:BATCH]
    pixels = sum(int(width) * int(height) for width, height in photos.sizes_wh[chosen])
    assert make().load(Step(0, hand.knobs()), 0).cost.jpeg_pixels == pixels


def test_the_costs_of_a_run_are_means_by_op_name(hand, make):
    workload = make()
    copies = [hand.ops(workload, Step(index, hand.knobs(batch_size=size)))[1].cost.bytes for index, size in enumerate((2, 4))]
    assert workload.costs["copy"].bytes == sum(copies) // 2
    assert set(workload.costs) == set(NAMES["cpu", "cpu"])
    assert workload.costs["forward"].flop == 3 * workload.forward(Step(9, hand.knobs(batch_size=1))).cost.flop


def test_a_batch_may_grow_and_shrink_while_it_runs_and_buffers_only_grow(hand, make):
    workload = make()
    held = []
    for index, size in enumerate((4, 4, 8, 2, 8, 4)):
        assert len(hand.prepared(workload, Step(index, hand.knobs(batch_size=size)), slot=0).images) == size
        held.append(workload._buffers.held_bytes())
    assert held[0] == held[1] < held[2] == held[3] == held[4] == held[5] == 2 * held[0]


def test_three_slots_hold_three_batches_at_once(hand, make):
    workload = make()
    for turn in range(3):
        batches = [hand.prepared(workload, Step(3 * turn + slot, hand.knobs()), slot) for slot in range(3)]
        kept = [(batch.images.clone(), batch.labels_B.clone()) for batch in batches]
        refilled = [hand.prepared(workload, Step(99, hand.knobs()), slot) for slot in (1, 2)]
        assert torch.equal(batches[0].images, kept[0][0]) and torch.equal(batches[0].labels_B, kept[0][1])
        assert all(batch.labels_B.max() < 8 and batch.labels_B.min() >= 0 for batch in [*batches, *refilled])
    assert workload._buffers.held_bytes() == 3 * 2 * (4 * 3 * BATCH * SIDE**2 + 8 * BATCH)


# ---- on devices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knobs", [
    {"prefetch": 4, "workers": 3}, {"prefetch": 2, "augment_on": "gpu", "normalise_on": "gpu", "copy_stream": "compute"},
    {"prefetch": 1, "loader": "inline", "non_blocking": False, "log_sync": True},
])  # fmt: skip
def test_a_pipeline_on_threads_reads_the_losses_of_the_steps_done_by_hand(hand, make, knobs):
    settings = hand.knobs(**knobs)
    expected = hand.losses(make(), 6, hand.knobs())
    workload, device = make(loader=settings.loader), CpuDevice(widths={"workers": settings.workers})
    pipeline(device, workload, [Step(index, settings) for index in range(6)])
    assert device.close() == []
    assert workload.results() == {"first_loss": expected[0], "last_loss": expected[-1], "losses_read": 6}


def test_for_a_simulated_device_nothing_is_built_and_nothing_is_allocated(hand, make):
    workload = make("simulated")
    assert not hasattr(workload, "model") and not hasattr(workload, "optimizer")
    device = SimulatedDevice(load_machine("h200"))
    pipeline(device, workload, [Step(index, hand.knobs()) for index in range(20)])
    assert device.close() == []
    assert workload._buffers.held_bytes() == 0
    assert workload.results() == {"first_loss": None, "last_loss": None, "losses_read": 0}
    assert device.recorder.finish(device.now())["items"].sum() == 20 * BATCH


@pytest.mark.parametrize("placement", list(NAMES))
def test_a_simulated_device_is_asked_for_the_same_ops_at_the_same_costs(hand, make, placement):
    real, simulated = make(), make("simulated")
    for index in range(3):
        step = Step(index, placed(hand, placement))
        asked = [[(op.name, op.lane, op.cost, op.step, op.items, op.blocking) for op in hand.ops(one, step)] for one in (real, simulated)]
        assert asked[0] == asked[1]
