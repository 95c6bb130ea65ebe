"""One photo to a square of pixels: what a loader does for each item, so its cost in Python is kept small.

A JPEG is decoded no larger than needed: its transform can be inverted at 1/2, 1/4 or 1/8 of the size
(Pillow's `draft`), and the rest of the way is one bilinear resize of the chosen box. Reading, decoding and
resizing all happen outside the GIL, so threads scale.
"""

import math
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from labkit.errors import BrokenImage, DataError

if TYPE_CHECKING:
    from PIL import Image

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the photo as stored."""

READ_FAILURES = (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error, zlib.error)
"""What Pillow raises on damaged files (`SyntaxError` for a PNG with a broken chunk, for one)."""

_FORMATS = ("JPEG", "PNG")
_RESIZED_AS_STORED = frozenset({"RGB", "L", "CMYK"})
_REDUCING_GAP = 2.0


def decode_square(
    path: str | Path, side: int, *, box: Box | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """The photo at `path` as uint8 [side, side, 3], RGB.

    `box` is the part shown, in pixels of the photo as stored (see `draw_square`); without it, the largest
    centred square. With `out`, a uint8 [side, side, 3] view (a slot of a batch), the pixels are written
    there and `out` is returned. Greyscale, CMYK and palette photos become RGB; transparency is dropped; an
    EXIF orientation is not applied.

    Raises BrokenImage if the file is missing, truncated or damaged. (Damage inside the compressed data that
    still decodes is not seen: the format has no checksum for it.) Raises DataError for a wrong box or `out`.

    Of the ways timed, one unbuffered read and decoding from memory was the fastest, by a little; what matters
    is `draft`, once the photo is at least twice the side.
    """
    _check_out(side, out)
    try:
        with open(path, "rb", buffering=0) as file:
            photo = open_photo(BytesIO(file.readall()))
        square = _square_of(photo, side, _checked_box(path, photo.size, box))
    except READ_FAILURES as error:
        raise BrokenImage(str(path), reason_of(error)) from error
    if out is None:
        return np.array(square)
    out[...] = np.asarray(square)
    return out


def centre_square(size_wh: tuple[int, int]) -> Box:
    """The largest centred square of a photo of this size."""
    width, height = size_wh
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    return left, top, left + edge, top + edge


def draw_square(size_wh: tuple[int, int], rng: np.random.Generator, smallest_share: float = 0.35) -> Box:
    """A random square for training: its area is between `smallest_share` and all of the centred square's.

    It takes three numbers from `rng`, whatever the photo. The square stays inside the photo.
    """
    width, height = size_wh
    growth, across, down = rng.random(3).tolist()
    edge = min(width, height) * math.sqrt(smallest_share + (1 - smallest_share) * growth)
    left, top = across * (width - edge), down * (height - edge)
    return left, top, left + edge, top + edge


def open_photo(file: BinaryIO) -> "Image.Image":
    """The photo in `file`, its header read, its pixels not yet."""
    from PIL import Image

    try:
        return Image.open(file, formats=_FORMATS)
    except Image.DecompressionBombError as error:  # derives from Exception alone
        raise ValueError(str(error)) from error


def reason_of(error: Exception) -> str:
    """Why a file could not be read, in words, without repeating its path."""
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return f"not a {' or '.join(_FORMATS)} image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _square_of(photo: "Image.Image", side: int, box: Box) -> "Image.Image":
    """Decode `photo` at the smallest scale that still covers `side`, and resize the box to it."""
    from PIL import Image

    full_width, full_height = photo.size
    left, top, right, bottom = box
    covering = full_width * side / (right - left), full_height * side / (bottom - top)
    photo.draft("RGB", (math.ceil(covering[0]), math.ceil(covering[1])))
    width, height = photo.size
    across, down = width / full_width, height / full_height
    drafted = left * across, top * down, min(right * across, width), min(bottom * down, height)
    square = _resizable(photo).resize(
        (side, side), Image.Resampling.BILINEAR, box=drafted, reducing_gap=_REDUCING_GAP
    )
    return square if square.mode == "RGB" else square.convert("RGB")


def _resizable(photo: "Image.Image") -> "Image.Image":
    """The photo in a mode whose values may be averaged; palette indices may not."""
    from PIL import Image

    if photo.mode in _RESIZED_AS_STORED:
        return photo
    if photo.mode.startswith("I"):  # 16-bit greyscale, which a plain conversion would clip to white
        return Image.fromarray((np.asarray(photo) >> 8).astype(np.uint8))
    if photo.mode == "P" and "transparency" in photo.info:
        photo = photo.convert("RGBA")
    return photo.convert("RGB")


def _checked_box(path: str | Path, size_wh: tuple[int, int], box: Box | None) -> Box:
    if box is None:
        return centre_square(size_wh)
    left, top, right, bottom = box
    width, height = size_wh
    if 0 <= left < right <= width and 0 <= top < bottom <= height:
        return box
    raise DataError(
        f"the box {box} does not lie in {path}, which is {width} x {height} pixels: give left < right and "
        f"top < bottom, all within the photo"
    )


def _check_out(side: int, out: np.ndarray | None) -> None:
    if side < 1:
        raise DataError(f"the side of a decoded square is {side}, expected at least 1 pixel")
    if out is not None and (out.shape != (side, side, 3) or out.dtype != np.uint8):
        raise DataError(f"`out` is {out.dtype} {list(out.shape)}, expected uint8 [{side}, {side}, 3]")
