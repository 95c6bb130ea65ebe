"""Where the packed weights of all layers lie while they are not on the device: in host memory, or in a file.

The file has no name: it is gone when the process is, however that ends. What is read is checked against a checksum, the first time of each run.
"""

import os
import tempfile
import zlib
from collections.abc import Callable

import torch

from labkit.errors import DataError
from labkit.units import format_bytes

Packed = Callable[[int], torch.Tensor]


class HostStore:
    """The packed layers in host memory, pinned where a GPU wants that; allocated once."""

    def __init__(self, layers: int, nbytes: int, packed: Packed, pinned: bool):
        try:
            self._data = torch.empty(layers, nbytes, dtype=torch.uint8, pin_memory=pinned)
        except RuntimeError as error:
            raise DataError(f"{layers} layers of {format_bytes(nbytes)} do not fit into host memory: {error}") from error
        for layer in range(layers):
            self._data[layer].copy_(packed(layer))

    def there(self, layer: int) -> torch.Tensor:
        """The bytes of a layer, uint8 [nbytes], where they lie."""
        return self._data[layer]

    def begin(self) -> None:
        """A new run."""

    def close(self) -> None:
        """Let go of the memory."""
        del self._data


class DiskStore:
    """The packed layers in a file, one after another.

    folder  where the file is made; None: where temporary files are. Raises DataError where there is no room for it.
    """

    def __init__(self, layers: int, nbytes: int, packed: Packed, folder: str | None = None):
        self._nbytes = nbytes
        self._sums: list[int] = []
        self._checked: set[int] = set()
        layer = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  (closed by close)
            for layer in range(layers):
                data = memoryview(packed(layer).numpy())
                self._sums.append(zlib.crc32(data))
                self._write(data)
            os.fsync(self._file.fileno())
        except OSError as error:
            self.close()
            where = folder or tempfile.gettempdir()
            of = f"layer {layer} of {layers} ({format_bytes(nbytes)}; {format_bytes(layers * nbytes)} in all)"
            raise DataError(f"{of} cannot be written to {where}: {error.strerror or error}") from error

    def read(self, layer: int, into: torch.Tensor, cached: bool) -> torch.Tensor:
        """Read a layer into uint8 [nbytes]. `cached`: what the system keeps of the file in memory may serve. Raises DataError for bytes that
        are missing or not those that were written. Returns `into`."""
        number, at, view = self._file.fileno(), layer * self._nbytes, memoryview(into.numpy())
        if not cached and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(number, at, self._nbytes, os.POSIX_FADV_DONTNEED)
        done = 0
        while done < self._nbytes:
            try:
                got = os.preadv(number, [view[done:]], at + done)
            except OSError as error:
                raise DataError(f"layer {layer} cannot be read: {error.strerror or error}") from error
            if got == 0:
                raise DataError(f"layer {layer} is cut off: {format_bytes(done)} of {format_bytes(self._nbytes)} are there")
            done += got
        if layer not in self._checked:
            if zlib.crc32(view) != self._sums[layer]:
                raise DataError(f"layer {layer} is not what was written: its checksum differs")
            self._checked.add(layer)
        return into

    def begin(self) -> None:
        """A new run: everything is checked once more."""
        self._checked.clear()

    def close(self) -> None:
        """Close the file, which ends it."""
        if hasattr(self, "_file"):
            self._file.close()

    def _write(self, data: memoryview) -> None:
        done = 0
        while done < len(data):
            done += self._file.write(data[done:])
