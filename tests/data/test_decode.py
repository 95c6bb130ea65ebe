"""Any photo becomes a square of RGB pixels of the part asked for, and a damaged one says so."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.data import centre_square, datasets_root, decode_square, draw_square
from labkit.errors import BrokenImage, DataError

RED, GREEN, BLUE = (200, 30, 30), (30, 180, 30), (30, 30, 200)
ROCKET = datasets_root() / "photos" / "rocket" / "rocket-00000.jpg"


def three_stripes(width: int = 900, height: int = 300) -> Image.Image:
    """Red, green and blue side by side: the centred square of 900 x 300 is the green stripe."""
    photo = Image.new("RGB", (width, height), GREEN)
    photo.paste(RED, (0, 0, width // 3, height))
    photo.paste(BLUE, (2 * width // 3, 0, width, height))
    return photo


def save(photo: Image.Image, path: Path, **options: int) -> Path:
    photo.save(path, **options)
    return path


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_without_a_box_the_centred_square_is_shown(tmp_path: Path, suffix: str):
    pixels = decode_square(save(three_stripes(), tmp_path / f"a{suffix}"), 32)
    assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)
    assert np.abs(pixels[:, 2:-2].astype(int) - GREEN).max() <= 6


@pytest.mark.parametrize("side", [8, 64, 299, 300, 400])
def test_a_box_is_in_pixels_of_the_full_photo_at_every_decoding_scale(tmp_path: Path, side: int):
    path = save(three_stripes(), tmp_path / "a.jpg", quality=95)
    red = decode_square(path, side, box=(0, 0, 280, 280))
    blue = decode_square(path, side, box=(620, 20, 900, 300))
    assert np.abs(red.astype(int) - RED).max() <= 6
    assert np.abs(blue.astype(int) - BLUE).max() <= 6


def test_the_scaled_decoding_shows_what_the_full_decoding_shows():
    path = datasets_root() / "photos" / "retina" / "retina-00004.jpg"
    full = Image.open(path).convert("RGB")
    reference = full.resize((128, 128), Image.Resampling.BOX, box=centre_square(full.size))
    difference = np.abs(decode_square(path, 128).astype(int) - np.asarray(reference))
    assert full.size == (1366, 1366)
    assert difference.mean() < 1.5


def test_a_large_photo_is_decoded_no_larger_than_needed(monkeypatch: pytest.MonkeyPatch):
    resized_from = []
    resize = Image.Image.resize

    def spy(photo: Image.Image, *args: object, **kwargs: object) -> Image.Image:
        resized_from.append(photo.size)
        return resize(photo, *args, **kwargs)

    monkeypatch.setattr(Image.Image, "resize", spy)
    path = datasets_root() / "photos" / "retina" / "retina-00004.jpg"
    for side in (170, 171, 342, 684):
        decode_square(path, side)
    decode_square(path, 342, box=(0, 0, 342, 1366))  # a narrow box needs every column
    decode_square(path, 342, box=(0, 0, 1366, 684))  # a low one every other row
    assert resized_from == [(171, 171), (342, 342), (683, 683), (1366, 1366), (1366, 1366), (683, 683)]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_png_of_every_mode_becomes_rgb(tmp_path: Path, mode: str):
    path = save(Image.new("RGB", (40, 40), (255, 255, 255)).convert(mode), tmp_path / "a.png")
    assert decode_square(path, 16).tolist() == [[[255, 255, 255]] * 16] * 16


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg_of_every_mode_becomes_rgb(tmp_path: Path, mode: str):
    path = save(Image.new("RGB", (80, 80), (120, 120, 120)).convert(mode), tmp_path / "a.jpg", quality=95)
    assert np.abs(decode_square(path, 16).astype(int) - 120).max() <= 3


def test_palette_colours_are_averaged_not_palette_numbers(tmp_path: Path):
    palette = Image.new("P", (64, 64), 0)
    palette.putpalette([255, 0, 0, 0, 255, 0, 255, 0, 0])  # 0 and 2 are red, 1 between them is green
    palette.paste(2, (0, 0, 32, 64))
    red = decode_square(save(palette, tmp_path / "a.png"), 10)
    assert red.reshape(-1, 3).tolist() == [[255, 0, 0]] * 100


def test_a_palette_with_transparency_is_decoded_without_a_warning(tmp_path: Path, recwarn):
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([9, 8, 7])
    palette.save(tmp_path / "a.png", transparency=b"\x80")
    assert decode_square(tmp_path / "a.png", 4)[0, 0].tolist() == [9, 8, 7]
    assert [str(warning.message) for warning in recwarn] == []


def test_16_bit_greyscale_is_scaled_and_not_clipped_to_white(tmp_path: Path):
    grey = np.full((20, 20), 0x80FF, dtype=np.uint16)
    assert decode_square(save(Image.fromarray(grey), tmp_path / "a.png"), 4)[0, 0].tolist() == [128] * 3


def test_an_exif_orientation_is_not_applied(tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera held on its side
    three_stripes().save(tmp_path / "a.jpg", exif=exif)
    pixels = decode_square(tmp_path / "a.jpg", 30, box=(0, 0, 900, 300))
    assert np.abs(pixels[15, [2, 15, 27]].astype(int) - [RED, GREEN, BLUE]).max() <= 6


def test_a_photo_of_one_pixel_is_enlarged(tmp_path: Path):
    path = save(Image.new("RGB", (1, 1), RED), tmp_path / "a.png")
    assert decode_square(path, 3).reshape(-1, 3).tolist() == [list(RED)] * 9


def test_the_pixels_are_written_into_the_slot_of_a_batch_and_nowhere_else():
    batch = np.full((3, 64, 64, 3), 7, dtype=np.uint8)
    slot = batch[1]
    assert decode_square(ROCKET, 64, out=slot) is slot
    assert np.array_equal(batch[1], decode_square(ROCKET, 64))
    assert (batch[[0, 2]] == 7).all()


def test_the_result_may_be_written_to():
    decode_square(ROCKET, 8)[...] = 0


def test_threads_decode_the_same_pixels():
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: decode_square(ROCKET, 96), range(16)))
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize(
    "out",
    [
        np.empty((8, 8, 3), np.float32),
        np.empty((8, 9, 3), np.uint8),
        np.empty((3, 8, 8), np.uint8),
    ],
)
def test_a_slot_of_another_shape_or_type_is_refused(out: np.ndarray):
    with pytest.raises(DataError, match=r"expected uint8 \[8, 8, 3\]"):
        decode_square(ROCKET, 8, out=out)


def test_a_side_of_zero_is_refused():
    with pytest.raises(DataError, match="the side of a decoded square is 0, expected at least 1"):
        decode_square(ROCKET, 0)


@pytest.mark.parametrize("box", [(0, 0, 366, 10), (-1, 0, 5, 5), (5, 5, 5, 10), (0, 9, 9, 3)])
def test_a_box_outside_the_photo_or_without_area_is_refused(box: tuple[int, int, int, int]):
    with pytest.raises(DataError, match="which is 365 x 365 pixels") as failure:
        decode_square(ROCKET, 8, box=box)
    assert not isinstance(failure.value, BrokenImage)


def test_a_truncated_photo_is_broken_and_names_its_file(tmp_path: Path):
    path = tmp_path / "half.jpg"
    path.write_bytes(ROCKET.read_bytes()[:6000])
    with pytest.raises(BrokenImage) as failure:
        decode_square(path, 64)
    assert failure.value.path == str(path)
    assert "truncated" in failure.value.reason


def test_a_truncated_photo_leaves_the_slot_as_it_was(tmp_path: Path):
    path = tmp_path / "half.jpg"
    path.write_bytes(ROCKET.read_bytes()[:6000])
    slot = np.full((16, 16, 3), 7, dtype=np.uint8)
    with pytest.raises(BrokenImage):
        decode_square(path, 16, out=slot)
    assert (slot == 7).all()


@pytest.mark.parametrize(("content", "reason"), [(b"", "not a JPEG or PNG image"), (b"GIF89a", "not a JPEG")])
def test_what_is_no_photo_is_broken(tmp_path: Path, content: bytes, reason: str):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(BrokenImage, match=reason):
        decode_square(path, 8)


def test_a_missing_file_is_broken(tmp_path: Path):
    with pytest.raises(BrokenImage, match="No such file"):
        decode_square(tmp_path / "none.jpg", 8)


def test_a_photo_too_large_to_be_trusted_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(BrokenImage, match="exceeds limit"):
        decode_square(ROCKET, 8)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_decode_or_are_broken_and_raise_nothing_else(tmp_path_factory, data: st.DataObject):
    folder = tmp_path_factory.mktemp("damaged")
    kind = data.draw(st.sampled_from(["JPEG", "PNG"]))
    three_stripes(48, 16).save(folder / "a", kind)
    content = bytearray((folder / "a").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "a").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        assert decode_square(folder / "a", 8).shape == (8, 8, 3)
    except BrokenImage as broken:
        assert broken.reason


def test_the_centre_square_of_a_landscape_and_of_a_portrait():
    assert centre_square((640, 427)) == (106.5, 0, 533.5, 427)
    assert centre_square((3, 10)) == (0, 3.5, 3, 6.5)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 2**32 - 1))
def test_a_drawn_square_is_square_and_inside_and_within_its_share(width: int, height: int, seed: int):
    left, top, right, bottom = draw_square((width, height), np.random.default_rng(seed), smallest_share=0.25)
    assert right - left == pytest.approx(bottom - top, abs=1e-6)
    assert 0 <= left < right <= width and 0 <= top < bottom <= height
    assert 0.5 - 1e-6 <= (right - left) / min(width, height) <= 1 + 1e-6


def test_the_same_seed_draws_the_same_squares_whatever_the_photo():
    first, second = np.random.default_rng(5), np.random.default_rng(5)
    draw_square((640, 427), first)
    draw_square((100, 900), second)
    assert draw_square((500, 300), first) == draw_square((500, 300), second)
