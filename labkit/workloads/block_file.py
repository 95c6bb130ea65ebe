"""Blocks of one size in a file without a name, read with the system's cache or around it: the table of a tiered lookup, the layers of a model.

The file is gone when the process is, however that ends. Each block begins at a page, so that a read around the cache forgets just its own pages;
where blocks are small the system is told not to read ahead. What is read is checked against a checksum, the first time of each run.
"""

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from labkit.errors import DataError
from labkit.units import format_bytes

PAGE = 4096
SMALL = 1 << 20
MOUNTS = Path("/proc/self/mountinfo")


class BlockFile:
    """`blocks` blocks of `nbytes`, made by `made(block)`, uint8 [nbytes].

    called  what people call a block: "layer"
    folder  where the file is made; None: where temporary files are. Raises DataError where there is no such folder, or no room.
    """

    def __init__(self, blocks: int, nbytes: int, made: Callable[[int], np.ndarray], folder: str | None = None, called: str = "block"):
        self._blocks, self._nbytes, self._called = blocks, nbytes, called
        self._stride = -(-nbytes // PAGE) * PAGE
        self._sums: list[int] = []
        self._checked: set[int] = set()
        self.folder = folder or tempfile.gettempdir()
        block = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  (closed by close)
            self._fits()
            for block in range(blocks):
                data = memoryview(made(block))
                self._sums.append(zlib.crc32(data))
                self._write(data, block * self._stride)
            os.ftruncate(self._file.fileno(), self.size)
            os.fsync(self._file.fileno())
        except OSError as error:
            self.close()
            of = f"{called} {block} of {blocks} ({format_bytes(nbytes)}; {format_bytes(self.size)} in all)"
            raise DataError(f"{of} cannot be written to {self.folder}: {error.strerror or error}") from error
        except DataError:
            self.close()
            raise
        if nbytes < SMALL and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self._blocks * self._stride

    def read(self, block: int, into: memoryview, cached: bool) -> None:
        """Read a block into `into`, of its size. `cached`: what the system keeps of the file in memory may serve. Safe from several threads.
        Raises DataError for bytes that are missing or not those that were written."""
        number, at = self._file.fileno(), block * self._stride
        if not cached and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(number, at, self._stride, os.POSIX_FADV_DONTNEED)
        done = 0
        while done < self._nbytes:
            try:
                got = os.preadv(number, [into[done:]], at + done)
            except OSError as error:
                raise DataError(f"{self._called} {block} cannot be read: {error.strerror or error}") from error
            if got == 0:
                raise DataError(f"{self._called} {block} is cut off: {format_bytes(done)} of {format_bytes(self._nbytes)} are there")
            done += got
        if block not in self._checked:
            if zlib.crc32(into) != self._sums[block]:
                raise DataError(f"{self._called} {block} is not what was written: its checksum differs")
            self._checked.add(block)

    def begin(self) -> None:
        """A new run: everything is checked once more."""
        self._checked.clear()

    def in_memory(self) -> bool:
        """Whether the file lies in a file system that is memory itself (tmpfs), which no read can get around."""
        return _file_system(self._file.fileno()) in ("tmpfs", "ramfs")

    def close(self) -> None:
        """Close the file, which ends it."""
        if hasattr(self, "_file"):
            self._file.close()

    def _fits(self) -> None:
        free = shutil.disk_usage(self.folder).free
        if self.size > free:
            needs = f"{self._blocks} {self._called}s of {format_bytes(self._nbytes)} need {format_bytes(self.size)}"
            raise DataError(f"{needs}; {self.folder} has {format_bytes(free)} free: use fewer or smaller {self._called}s, or another folder")

    def _write(self, data: memoryview, at: int) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._file.fileno(), data[done:], at + done)


def _file_system(descriptor: int) -> str:
    """The kind of file system that an open file lies in, "" where that is not known."""
    device = os.fstat(descriptor).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        left, _, right = line.partition(" - ")
        if left.split()[2:3] == [wanted] and right:
            return right.split()[0]
    return ""
