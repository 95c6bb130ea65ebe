"""How the weights of one layer are packed into bytes, and unpacked: float32 as they are, or matrices as int8 with a scale for each output channel.

All layers of a model have one format, so that any buffer can hold any layer. In int8 a matrix row w is stored as round(w ÷ s) with
s = max |w| ÷ 127 (symmetric, per channel); vectors (biases, norms) stay float32.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

Weights = Literal["fp32", "int8"]
ALIGNED = 64
_LEVELS = 127


@dataclass(frozen=True)
class Part:
    """Where one parameter lies in the packed bytes; `scales_at` is where its scales do, -1 where it is not quantised."""

    name: str
    shape: tuple[int, ...]
    at: int
    scales_at: int = -1

    @property
    def count(self) -> int:
        """Its values."""
        return math.prod(self.shape)


class PackedLayer:
    """The format of a layer's weights.

    parameters  name → shape, in order
    nbytes      bytes of a packed layer
    """

    def __init__(self, parameters: Mapping[str, torch.Size | tuple[int, ...]], weights: Weights):
        self.weights = weights
        self.parts: list[Part] = []
        at = 0
        for name, shape in parameters.items():
            quantised = weights == "int8" and len(shape) == 2
            count = math.prod(shape)
            part = Part(name, tuple(shape), at, _up(at + count) if quantised else -1)
            self.parts.append(part)
            at = _up(part.scales_at + 4 * shape[0] if quantised else at + 4 * count)
        self.nbytes = at

    def packed(self, parameters: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The bytes, uint8 [nbytes], of float32 parameters."""
        data = torch.zeros(self.nbytes, dtype=torch.uint8)
        for part in self.parts:
            values = parameters[part.name].detach()
            if part.scales_at < 0:
                self._floats(data, part).copy_(values)
                continue
            scales = values.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / _LEVELS
            self._scales(data, part).copy_(scales)
            self._integers(data, part).copy_((values / scales[:, None]).round().clamp_(-_LEVELS, _LEVELS))
        return data

    def views(self, data: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters that lie in the bytes of a float32 format: views, nothing is copied."""
        assert self.weights == "fp32", "int8 must be unpacked first"
        return {part.name: self._floats(data, part) for part in self.parts}

    def unpack(self, data: torch.Tensor, whole: "PackedLayer", into: torch.Tensor) -> torch.Tensor:
        """Write the bytes of this int8 layer as those of the float32 format `whole`. Returns `into`."""
        for part, target in zip(self.parts, whole.parts, strict=True):
            place = whole._floats(into, target)
            if part.scales_at < 0:
                place.copy_(self._floats(data, part))
            else:
                torch.mul(self._integers(data, part), self._scales(data, part)[:, None], out=place)
        return into

    @staticmethod
    def _floats(data: torch.Tensor, part: Part) -> torch.Tensor:
        return data[part.at : part.at + 4 * part.count].view(torch.float32).view(part.shape)

    @staticmethod
    def _integers(data: torch.Tensor, part: Part) -> torch.Tensor:
        return data[part.at : part.at + part.count].view(torch.int8).view(part.shape)

    @staticmethod
    def _scales(data: torch.Tensor, part: Part) -> torch.Tensor:
        return data[part.scales_at : part.scales_at + 4 * part.shape[0]].view(torch.float32)


def _up(count: int) -> int:
    """The next multiple of `ALIGNED`."""
    return -(-count // ALIGNED) * ALIGNED
