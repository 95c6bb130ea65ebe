"""Cropping and normalising give the same values, bit for bit, on whichever side and in whichever order they are done."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.workloads.images import MEAN, STD, Crops, augment, crop_on_host, normalise


def noise(seed: int, count: int, side: int) -> torch.Tensor:
    """Random bytes, uint8 [count, side, side, 3]."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8))


def cropped_on_host(images_BHWC: torch.Tensor, crops: Crops, side: int) -> torch.Tensor:
    out = torch.empty((len(images_BHWC), side, side, 3), dtype=torch.uint8)
    for place, image in enumerate(images_BHWC.numpy()):
        crop_on_host(image, crops, place, out.numpy()[place])
    return out


BATCHES = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 12), st.integers(0, 6))


@settings(deadline=None, max_examples=60)
@given(BATCHES)
def test_a_crop_on_the_host_is_the_gather_on_the_device_for_bytes(batch: tuple[int, int, int, int]):
    seed, count, side, room = batch
    images, crops = noise(seed, count, side + room), Crops.draw((seed, 1), count, room)
    gathered = augment(images, crops, side)
    assert gathered.dtype == torch.uint8 and gathered.shape == (count, side, side, 3)
    assert torch.equal(cropped_on_host(images, crops, side), gathered)


@settings(deadline=None, max_examples=60)
@given(BATCHES)
def test_normalising_before_the_crop_is_normalising_after_it(batch: tuple[int, int, int, int]):
    seed, count, side, room = batch
    images, crops = noise(seed, count, side + room), Crops.draw((seed, 1), count, room)
    before = augment(normalise(images), crops, side)
    after = normalise(augment(images, crops, side))
    assert before.dtype == after.dtype == torch.float32 and before.shape == (count, 3, side, side)
    assert before.is_contiguous() and after.is_contiguous()
    assert torch.equal(before, after)


def test_a_crop_is_the_window_it_names_mirrored_where_it_says_so():
    images = noise(0, 2, 8)
    crops = Crops(top=np.array([1, 3]), left=np.array([2, 0]), flip=np.array([False, True]))
    expected = torch.stack([images[0, 1:6, 2:7], images[1, 3:8, 0:5].flip(1)])
    assert torch.equal(augment(images, crops, 5), expected)
    assert torch.equal(cropped_on_host(images, crops, 5), expected)


def test_a_crop_without_room_and_without_flip_is_the_image():
    images = noise(0, 3, 8)
    crops = Crops(np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, bool))
    assert torch.equal(augment(images, crops, 8), images)


def test_normalised_bytes_are_the_formula():
    images = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16, 1).expand(1, 16, 16, 3)
    exact = (images.double() / 255 - torch.tensor(MEAN, dtype=torch.float64)) / torch.tensor(STD, dtype=torch.float64)
    assert (normalise(images).double() - exact.permute(0, 3, 1, 2)).abs().max() < 1e-6


def test_normalising_into_a_buffer_writes_there_the_same_values():
    images, out = noise(1, 2, 6), torch.full((2, 3, 6, 6), 7.0)
    assert normalise(images, out) is out
    assert torch.equal(out, normalise(images))


def test_normalising_leaves_the_bytes_as_they_were():
    images = noise(1, 2, 6)
    before = images.clone()
    normalise(images)
    assert torch.equal(images, before)


# ---- drawing crops ---------------------------------------------------------------------------------------------


def test_crops_of_one_seed_are_the_same_and_of_another_are_not():
    first, again, other = (Crops.draw((3, step), 64, 12) for step in (5, 5, 6))
    for part in ("top", "left", "flip"):
        assert np.array_equal(getattr(first, part), getattr(again, part))
        assert not np.array_equal(getattr(first, part), getattr(other, part))


@pytest.mark.parametrize("room", [0, 1, 12])
def test_crops_use_the_whole_room_and_no_more(room: int):
    crops = Crops.draw((0, 0), 500, room)
    assert set(crops.top.tolist()) == set(crops.left.tolist()) == set(range(room + 1))
    assert 150 < crops.flip.sum() < 350
    assert (crops.top.dtype, crops.left.dtype, crops.flip.dtype) == (np.int64, np.int64, np.bool_)
