"""The data that experiments read: where it lies, whether it is whole, and how a photo becomes pixels.

    locate.py    where the shipped data sets are            datasets_root()
    catalog.py   what they are, whose, and their checksums  read_catalog(), verify()
    photos.py    a folder of photos as an index             Photos.open()
    decode.py    one photo to a square of pixels            decode_square()
    cut.py       one photo cut out of another               draw_cut(), encode_cut()
    make.py      thousands of photos out of a few           make_photos()

Workloads sit above this package; below it are only `errors` and `units`. Pillow is imported when the first
photo is opened, not before: a simulated run names its photos without it.
"""

from labkit.data.catalog import Collection, Source, read_catalog, verify
from labkit.data.decode import centre_square, decode_square, draw_square
from labkit.data.locate import datasets_root
from labkit.data.make import default_made_photos, make_photos
from labkit.data.photos import Photos

__all__ = [
    "Collection",
    "Photos",
    "Source",
    "centre_square",
    "datasets_root",
    "decode_square",
    "default_made_photos",
    "draw_square",
    "make_photos",
    "read_catalog",
    "verify",
]
