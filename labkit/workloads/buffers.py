"""The memory behind a kernel's slots: one host and one device buffer a slot, allocated once and grown when needed.

Allocating pinned memory costs a third of a millisecond a megabyte, so a buffer is reused for as long as it is large
enough. Pinning happens only where there is a CUDA device to pin for.
"""

import math

import torch


class Buffers:
    """Slot buffers for one workload. `device` is where the device buffers lie; pinning applies on CUDA only."""

    def __init__(self, device: torch.device):
        self._device = device
        self._host: dict[tuple[int, bool], torch.Tensor] = {}
        self._on_device: dict[int, torch.Tensor] = {}

    def host(self, slot: int, shape: tuple[int, ...], dtype: torch.dtype, pinned: bool) -> torch.Tensor:
        """A host tensor in the buffer of `slot`."""
        pin = pinned and self._device.type == "cuda"
        return self._view(self._host, (slot, pin), shape, dtype, torch.device("cpu"), pin)

    def on_device(self, slot: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A device tensor in the buffer of `slot`."""
        return self._view(self._on_device, slot, shape, dtype, self._device, False)

    def drop(self, slot: int) -> None:
        """Let go of a slot's buffers on both sides; nothing that was submitted may still use them."""
        self._on_device.pop(slot, None)
        for pinned in (False, True):
            self._host.pop((slot, pinned), None)

    def held_bytes(self) -> int:
        """Bytes allocated on both sides."""
        return sum(buffer.numel() for buffer in [*self._host.values(), *self._on_device.values()])

    @staticmethod
    def _view(
        buffers: dict, key: object, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, pin: bool
    ) -> torch.Tensor:
        size = math.prod(shape) * dtype.itemsize
        buffer = buffers.get(key)
        if buffer is None or buffer.numel() < size:
            buffer = buffers[key] = torch.empty(size, dtype=torch.uint8, device=device, pin_memory=pin)
        return buffer[:size].view(dtype).view(shape)
