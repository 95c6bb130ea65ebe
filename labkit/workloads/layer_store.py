"""Where the packed weights of all layers lie while they are not on the device: in host memory, or in a file.

Both are made once, layer by layer, so that the model is never whole anywhere else.
"""

from collections.abc import Callable

import torch

from labkit.errors import DataError
from labkit.units import format_bytes
from labkit.workloads.block_file import BlockFile

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
    """The packed layers in a file without a name.

    folder  where the file is made; None: where temporary files are. Raises DataError where there is no room for it.
    """

    def __init__(self, layers: int, nbytes: int, packed: Packed, folder: str | None = None):
        self._file = BlockFile(layers, nbytes, lambda layer: packed(layer).numpy(), folder, "layer")
        self.begin, self.close = self._file.begin, self._file.close

    def read(self, layer: int, into: torch.Tensor, cached: bool) -> torch.Tensor:
        """Read a layer into uint8 [nbytes]. `cached`: what the system keeps of the file in memory may serve. Raises DataError for bytes that
        are missing or not those that were written. Returns `into`."""
        self._file.read(layer, memoryview(into.numpy()), cached)
        return into
