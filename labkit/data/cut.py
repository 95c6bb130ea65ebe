"""One photo cut out of another: a crop, perhaps mirrored, resized and encoded as a typical training JPEG.

`draw_cut` decides, `encode_cut` does. A cut is drawn from a `random.Random`, whose numbers are the same on
every platform and version of Python, so a seed names its photos for good.
"""

from dataclasses import dataclass
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

ASPECTS = (4 / 5, 1.0, 4 / 3, 3 / 2)
"""Width to height of a crop from a landscape; the inverse from a portrait, to keep the subject in view."""
SMALLEST_CROP = 0.7
"""A crop keeps at least this share of the width and height that its aspect allows."""
LONG_SIDES_PX = ((256, 400), (400, 800), (800, 1400))
LONG_SIDE_WEIGHTS = (15, 70, 15)
SHORTEST_SIDE_PX = 256
LARGEST_ENLARGEMENT = 1.5
QUALITIES = (80, 85, 92)
"""Least, most frequent and highest JPEG quality."""


@dataclass(frozen=True)
class Cut:
    """What to cut: `box` is left, top, right, bottom in pixels of the photo; `size_wh` the result's."""

    box: tuple[int, int, int, int]
    size_wh: tuple[int, int]
    mirrored: bool
    quality: int


def draw_cut(size_wh: tuple[int, int], random: Random, mirror: bool = True) -> Cut:
    """A random cut of a photo of this size, most often 400 to 800 pixels long, and near the photo's middle.

    Nothing is enlarged by more than 1.5, except to reach 256 pixels on the short side.
    """
    box = _draw_box(size_wh, random)
    crop_wh = box[2] - box[0], box[3] - box[1]
    ((shortest, longest),) = random.choices(LONG_SIDES_PX, LONG_SIDE_WEIGHTS)
    scale = min(random.randint(shortest, longest) / max(crop_wh), LARGEST_ENLARGEMENT)
    scale = max(scale, SHORTEST_SIDE_PX / min(crop_wh))
    least, frequent, highest = QUALITIES
    return Cut(
        box=box,
        size_wh=(round(crop_wh[0] * scale), round(crop_wh[1] * scale)),
        mirrored=random.random() < 0.5 and mirror,
        quality=round(random.triangular(least, highest, frequent)),
    )


def encode_cut(photo: "Image.Image", cut: Cut) -> bytes:
    """The JPEG of one cut: pixels alone, without EXIF, colour profile or comment."""
    from PIL import Image

    piece = photo.convert("RGB").resize(cut.size_wh, Image.Resampling.LANCZOS, box=cut.box)
    if cut.mirrored:
        piece = piece.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    piece.info.clear()
    file = BytesIO()
    piece.save(file, "JPEG", quality=cut.quality)
    return file.getvalue()


def _draw_box(size_wh: tuple[int, int], random: Random) -> tuple[int, int, int, int]:
    """A crop of a random aspect and size. Its place leans to where a subject usually is: the upper middle."""
    width, height = size_wh
    landscape = width > height or (width == height and random.random() < 0.5)
    aspect = random.choice(ASPECTS) if landscape else 1 / random.choice(ASPECTS)
    share = random.uniform(SMALLEST_CROP, 1.0)
    across = max(1, round(min(width, height * aspect) * share))
    down = max(1, round(min(height, width / aspect) * share))
    left = round((width - across) * random.triangular(0, 1, 0.5))
    top = round((height - down) * random.triangular(0, 1, 0.3))
    return left, top, left + across, top + down
