"""Thousands of photos out of a few: a data set of any size that needs no network and no licence of its own.

Each photo is a seeded cut of one of the source photos. The set appears at once and whole: it is written to a
hidden folder beside the target, which is renamed at the end and removed on any failure or interruption.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random

from labkit.data.cut import draw_cut, encode_cut
from labkit.data.decode import READ_FAILURES, open_photo, reason_of
from labkit.data.photos import Photos
from labkit.errors import BrokenImage, DataError
from labkit.units import format_bytes

Progress = Callable[[int, int], None]
"""Called with (photos written, photos in all) after each photo, on the calling thread."""

_SAMPLE = 16
_DISK_BLOCK_BYTES = 4096
_HEADROOM = 1.1
_MOST_THREADS = 8


def make_photos(
    source: Path,
    target: Path,
    count: int,
    seed: int = 0,
    progress: Progress | None = None,
    *,
    mirror: bool = True,
) -> int:
    """Cut `count` photos out of those under `source` into class folders under `target`; returns their bytes.

    Classes and their photos take turns, so the set is balanced. The same source, seed and version of Pillow
    give byte-identical files, and a larger count only adds to them. `mirror=False` mirrors none.

    Raises DataError, and leaves no photo behind, if `count` is not positive, `target` is not empty or cannot
    be written, the disk has too little room, or a source photo is damaged.
    """
    if count < 1:
        raise DataError(f"the count of photos to make is {count}, expected at least 1")
    target = target.resolve()
    try:
        _refuse_occupied(target)
        recipe = _Recipe.of(Photos.open(source), seed, mirror)
        _refuse_full_disk(target, count, _estimate_bytes(recipe, count))
        return _make(recipe, target, count, progress)
    except OSError as error:
        raise DataError(
            f"cannot write {count} photos to {target}: {error.strerror or error}. Nothing was left there; "
            f"name a folder that is writable and has room."
        ) from error


def default_made_photos(count: int, seed: int = 0) -> Path:
    """Where `count` made photos go unless told otherwise: a folder in the user's cache."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("labkit")) / f"photos-{count}-{seed}"


@dataclass(frozen=True)
class _Recipe:
    """What photo number `index` is: its class, its name and its bytes. Depends on nothing but its fields."""

    classes: tuple[tuple[str, tuple[Path, ...]], ...]
    seed: int
    mirror: bool

    @staticmethod
    def of(photos: Photos, seed: int, mirror: bool) -> "_Recipe":
        by_label = groupby(zip(photos.labels.tolist(), photos.paths, strict=True), key=lambda item: item[0])
        classes = ((photos.class_names[label], tuple(path for _, path in items)) for label, items in by_label)
        return _Recipe(tuple(classes), seed, mirror)

    def name(self, index: int) -> str:
        """`cat/cat-00012.jpg`."""
        turn, which = divmod(index, len(self.classes))
        class_name, _ = self.classes[which]
        return f"{class_name}/{class_name}-{turn:05d}.jpg"

    def encode(self, index: int) -> bytes:
        turn, which = divmod(index, len(self.classes))
        _, paths = self.classes[which]
        path = paths[turn % len(paths)]
        random = Random(f"labkit photos {self.seed} {index}")
        try:
            with path.open("rb") as file:
                photo = open_photo(file)
                return encode_cut(photo, draw_cut(photo.size, random, self.mirror))
        except READ_FAILURES as error:
            raise BrokenImage(str(path), reason_of(error)) from error


def _make(recipe: _Recipe, target: Path, count: int, progress: Progress | None) -> int:
    """Write the set to a hidden folder beside `target` and rename it. The hidden folder is always removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as staging:
        made = Path(staging) / "photos"
        total_bytes = _write(recipe, made, count, progress)
        if target.exists():  # empty, as was checked; not every system renames onto an empty folder
            target.rmdir()
        made.rename(target)
    return total_bytes


def _write(recipe: _Recipe, folder: Path, count: int, progress: Progress | None) -> int:
    """Write photos 0 to `count` - 1 under `folder`, several at once (Pillow works outside the GIL)."""
    for class_name, _ in recipe.classes:
        (folder / class_name).mkdir(parents=True)

    def write_one(index: int) -> int:
        return (folder / recipe.name(index)).write_bytes(recipe.encode(index))

    total_bytes = 0
    pool = ThreadPoolExecutor(_threads(), thread_name_prefix="labkit-make-photos")
    try:
        for done, size in enumerate(pool.map(write_one, range(count)), 1):
            total_bytes += size
            if progress is not None:
                progress(done, count)
    finally:  # on failure and Ctrl-C too: drop what has not begun
        pool.shutdown(cancel_futures=True)
    return total_bytes


def _threads() -> int:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, _MOST_THREADS)


def _refuse_occupied(target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists():
        raise DataError(f"{target} exists and is not an empty folder: remove it, or name another folder")


def _estimate_bytes(recipe: _Recipe, count: int) -> int:
    """The room `count` photos will take, from the first few of them, encoded in memory."""
    sample = min(count, _SAMPLE)
    mean_bytes = sum(len(recipe.encode(index)) for index in range(sample)) / sample
    return round(count * (mean_bytes + _DISK_BLOCK_BYTES) * _HEADROOM)


def _refuse_full_disk(target: Path, count: int, needed_bytes: int) -> None:
    existing = next(folder for folder in (target, *target.parents) if folder.exists())
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < needed_bytes:
        raise DataError(
            f"{count} photos need about {format_bytes(needed_bytes)} and the disk of {existing} has "
            f"{format_bytes(free_bytes)} free: make fewer, or name a folder on another disk"
        )
