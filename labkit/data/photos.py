"""A folder of photos as an index: which files, of which class, of what size. Headers only, no pixels.

The layout is the usual one for classification: `<folder>/<class>/<photo>.jpg`. What cannot be read is
skipped, counted and named with its reason, never passed on to fail in the middle of a run.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labkit.data.decode import READ_FAILURES, open_photo, reason_of
from labkit.errors import BrokenImage, DataError

SUFFIXES = (".jpg", ".jpeg", ".png")

_EXPECTED = f"Expected is <folder>/<class>/<photo> with photos ending in {', '.join(SUFFIXES)}"


@dataclass(frozen=True, eq=False)
class Photos:
    """An indexed tree of photos: item `i` is `paths[i]`, of class `class_names[labels[i]]`.

    `labels` is int64 [n]; `sizes_wh` is int32 [n, 2], width and height in pixels as stored (an EXIF
    orientation is not applied). `broken` holds one line, path and reason, for each file that was skipped.
    """

    folder: Path
    paths: tuple[Path, ...]
    labels: np.ndarray
    class_names: tuple[str, ...]
    sizes_wh: np.ndarray
    broken: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    @staticmethod
    def open(folder: Path) -> "Photos":
        """Index the class sub-folders of `folder`, both they and their photos sorted by name.

        A class is a sub-folder that holds at least one file with a photo's ending. Hidden folders and files
        are passed over; symbolic links are followed. Raises DataError if there is nothing to index.
        """
        classes = _classes(Path(folder))
        paths: list[Path] = []
        labels: list[int] = []
        sizes: list[tuple[int, int]] = []
        broken: list[str] = []
        for label, files in enumerate(classes.values()):
            for path in files:
                try:
                    sizes.append(_size_wh(path))
                except BrokenImage as error:
                    broken.append(f"{error.path}: {error.reason}")
                    continue
                paths.append(path)
                labels.append(label)
        if not paths:
            raise DataError(
                f"no readable photo in {folder}: {len(classes)} class sub-folders hold {len(broken)} photo "
                f"files and all are broken, the first being {broken[0]}. {_EXPECTED}."
            )
        return Photos(
            folder=Path(folder),
            paths=tuple(paths),
            labels=_frozen(np.array(labels, dtype=np.int64)),
            class_names=tuple(classes),
            sizes_wh=_frozen(np.array(sizes, dtype=np.int32)),
            broken=tuple(broken),
        )


def _classes(folder: Path) -> dict[str, list[Path]]:
    """The photo files of each class sub-folder of `folder`, sorted."""
    entries = list(_visible(folder))
    candidates = {entry.name: _photo_files(entry) for entry in entries if os.path.isdir(entry)}
    classes = {name: files for name, files in candidates.items() if files}
    if not classes:
        loose = sum(_is_photo(entry) for entry in entries)
        raise DataError(
            f"no class sub-folder with photos in {folder}: it holds {len(candidates)} sub-folders, none with "
            f"a photo, and {loose} photos directly. {_EXPECTED}."
        )
    return classes


def _photo_files(folder: Path) -> list[Path]:
    return [entry for entry in _visible(folder) if _is_photo(entry)]


def _is_photo(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and (os.path.isfile(path) or not os.path.exists(path))


def _visible(folder: Path) -> Iterator[Path]:
    """What `folder` holds, sorted, without what is hidden."""
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError as error:
        raise DataError(f"the folder of photos {folder} does not exist. {_EXPECTED}.") from error
    except NotADirectoryError as error:
        raise DataError(f"{folder} is a file, not a folder of photos. {_EXPECTED}.") from error
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"cannot list the folder {folder}: {reason}. Make it readable.") from error
    return (entry for entry in entries if not entry.name.startswith("."))


def _size_wh(path: Path) -> tuple[int, int]:
    """Width and height from the header alone."""
    try:
        with path.open("rb") as file:
            return open_photo(file).size
    except READ_FAILURES as error:
        raise BrokenImage(str(path), reason_of(error)) from error


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
