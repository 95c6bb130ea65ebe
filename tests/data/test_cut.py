"""A cut is a piece of its photo, of a training photo's size, encoded as pixels and nothing else."""

from io import BytesIO
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labkit.data.cut import Cut, draw_cut, encode_cut


@given(st.integers(256, 2000), st.integers(256, 2000), st.integers())
def test_a_cut_lies_inside_its_photo_and_is_of_a_training_size(width: int, height: int, seed: int):
    cut = draw_cut((width, height), Random(seed))
    left, top, right, bottom = cut.box
    assert 0 <= left < right <= width and 0 <= top < bottom <= height
    assert min(cut.size_wh) >= 256
    assert 80 <= cut.quality <= 92


@given(st.integers(400, 2000), st.integers(400, 2000), st.integers())
def test_a_cut_of_a_large_photo_keeps_its_shape_and_is_not_blown_up(width: int, height: int, seed: int):
    cut = draw_cut((width, height), Random(seed))
    left, top, right, bottom = cut.box
    across, down = cut.size_wh[0] / (right - left), cut.size_wh[1] / (bottom - top)
    assert across == pytest.approx(down, rel=0.01)
    assert across <= 1.51 or min(cut.size_wh) == 256


def test_most_cuts_of_a_large_photo_are_400_to_800_pixels_long():
    long_sides = [max(draw_cut((3000, 2000), Random(seed)).size_wh) for seed in range(1000)]
    assert 600 < sum(400 <= side <= 800 for side in long_sides) < 800
    assert 256 <= min(long_sides) < 300
    assert 1300 < max(long_sides) <= 1400


def test_a_cut_without_mirror_is_never_mirrored_and_otherwise_the_same():
    for seed in range(50):
        mirrored, plain = draw_cut((640, 427), Random(seed)), draw_cut((640, 427), Random(seed), mirror=False)
        assert not plain.mirrored
        assert (mirrored.box, mirrored.size_wh, mirrored.quality) == (plain.box, plain.size_wh, plain.quality)


def test_about_half_of_all_cuts_are_mirrored():
    assert 400 < sum(draw_cut((640, 427), Random(seed)).mirrored for seed in range(1000)) < 600


def test_a_seed_names_its_cut_for_good():
    assert draw_cut((640, 427), Random("labkit photos 0 0")) == Cut(
        box=(132, 87, 373, 388), size_wh=(362, 452), mirrored=False, quality=83
    )


@pytest.mark.parametrize(("mirrored", "left", "right"), [(False, 0, 255), (True, 255, 0)])
def test_an_encoded_cut_shows_its_box_at_its_size_mirrored_if_asked(mirrored: bool, left: int, right: int):
    photo = Image.new("L", (400, 100), 128)
    photo.paste(0, (100, 0, 200, 100))
    photo.paste(255, (200, 0, 300, 100))
    encoded = encode_cut(photo, Cut(box=(100, 0, 300, 100), size_wh=(100, 50), mirrored=mirrored, quality=90))
    pixels = np.asarray(Image.open(BytesIO(encoded))).astype(int)
    assert pixels.shape == (50, 100, 3)
    assert abs(pixels[:, :40] - left).max() <= 8
    assert abs(pixels[:, 60:] - right).max() <= 8


def test_an_encoded_cut_carries_no_exif_no_profile_and_no_comment():
    file = BytesIO()
    exif = Image.Exif()
    exif[0x010F] = "a camera maker"
    Image.new("RGB", (300, 300)).save(file, "JPEG", exif=exif, comment=b"secret", icc_profile=b"profile")
    photo = Image.open(file)
    assert {"exif", "comment", "icc_profile"} <= set(photo.info)
    cut = Image.open(BytesIO(encode_cut(photo, draw_cut((300, 300), Random(0)))))
    assert {"exif", "comment", "icc_profile"}.isdisjoint(cut.info)
