"""Memory behind a kernel's slots that other processes fill: one buffer a slot, allocated once and grown when needed.

A batch in new shared memory costs a page fault for each of its 4 KiB, on both sides; a buffer that is filled again costs
none. On Linux the memory has no name and is not part of /dev/shm, whose size a container limits; it goes with the last
process that has it, however that ends. Elsewhere it is a temporary file.
"""

import os
import tempfile
from typing import IO, Any, NamedTuple

import torch


class Place(NamedTuple):
    """Where the memory of a slot is found, from any process on this machine."""

    slot: int
    path: str
    bytes: int


class Mapped:
    """The memory of places, as this process sees it. Each slot is mapped once, and again when it has grown."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Place, torch.Tensor]] = {}

    def memory(self, place: Place) -> torch.Tensor:
        """The memory, uint8 [bytes]."""
        known, memory = self._known.get(place.slot, (None, None))
        if memory is None or known != place:
            memory = torch.from_file(place.path, shared=True, size=place.bytes, dtype=torch.uint8)
            self._known[place.slot] = place, memory
        return memory


class SharedBuffers:
    """The owner of the memory: the process that the batches are for."""

    def __init__(self) -> None:
        self._files: dict[int, IO[Any]] = {}
        self._places: dict[int, Place] = {}

    def place(self, slot: int, size: int) -> Place:
        """The place of a slot, with room for `size` bytes."""
        known = self._places.get(slot)
        if known is None or known.bytes < size:
            file = self._files.get(slot) or self._files.setdefault(slot, _new_file())
            os.ftruncate(file.fileno(), size)
            known = self._places[slot] = Place(slot, _path(file), size)
        return known

    def held_bytes(self) -> int:
        """Bytes allocated."""
        return sum(place.bytes for place in self._places.values())

    def close(self) -> None:
        """Give no more places. Memory that is mapped stays for as long as a tensor needs it."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._places.clear()


def _new_file() -> IO[Any]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("labkit-slot"), "r+b", buffering=0)
    return tempfile.NamedTemporaryFile(prefix="labkit-slot-")


def _path(file: IO[Any]) -> str:
    return f"/proc/{os.getpid()}/fd/{file.fileno()}" if isinstance(file.name, int) else file.name
