"""Augmenting and normalising a batch of images, on whichever side: the same values come out, bit for bit.

On the host the images are cropped one by one into the batch's buffer; on the device the whole batch is gathered by one
indexing kernel. Normalising is pointwise, so it commutes with cropping and flipping.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

MEAN = (0.485, 0.456, 0.406)  # of ImageNet's training set, as torchvision's reference training uses them
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Crops:
    """Where each image of a batch is cut, and whether it is mirrored: int64 [B], int64 [B], bool [B]."""

    top: np.ndarray
    left: np.ndarray
    flip: np.ndarray

    @classmethod
    def draw(cls, seed: tuple[int, int], count: int, room: int) -> "Crops":
        """Random crops with `room` pixels to move in, the same for the same seed."""
        rng = np.random.default_rng(seed)
        return cls(rng.integers(0, room + 1, count), rng.integers(0, room + 1, count), rng.random(count) < 0.5)


def crop_on_host(image_HWC: np.ndarray, crops: Crops, place: int, out_HWC: np.ndarray) -> None:
    """Cut image number `place` of a batch into `out_HWC`, mirrored if its crop says so."""
    side = out_HWC.shape[0]
    top, left = crops.top[place], crops.left[place]
    cut = image_HWC[top : top + side, left : left + side]
    out_HWC[...] = cut[:, ::-1] if crops.flip[place] else cut


def augment(images: torch.Tensor, crops: Crops, side: int) -> torch.Tensor:
    """The crops of a batch by one gather: uint8 [B, H, W, 3] or float32 [B, 3, H, W], to the same with H = W = side."""
    device = images.device
    top, left, flip = (torch.from_numpy(part).to(device, non_blocking=True) for part in (crops.top, crops.left, crops.flip))
    along = torch.arange(side, device=device)
    rows_BH = top[:, None] + along
    columns_BW = left[:, None] + torch.where(flip[:, None], side - 1 - along, along)
    batch = torch.arange(len(images), device=device)[:, None, None]
    if images.dtype == torch.uint8:
        return images[batch, rows_BH[:, :, None], columns_BW[:, None, :]]
    channels_last = images.permute(0, 2, 3, 1)
    return channels_last[batch, rows_BH[:, :, None], columns_BW[:, None, :]].permute(0, 3, 1, 2).contiguous()


def normalise(images_BHWC: torch.Tensor, out_BCHW: torch.Tensor | None = None) -> torch.Tensor:
    """uint8 [B, H, W, 3] → float32 [B, 3, H, W], (x/255 - mean) / std by channel; into `out_BCHW` where it is given."""
    scale, shift = _scale_and_shift(images_BHWC.device)
    batch, height, width, channels = images_BHWC.shape
    if out_BCHW is None:
        out_BCHW = torch.empty((batch, channels, height, width), dtype=torch.float32, device=images_BHWC.device)
    out_BCHW.copy_(images_BHWC.permute(0, 3, 1, 2))
    return out_BCHW.mul_(scale).add_(shift)


@cache
def _scale_and_shift(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """What turns bytes into normalised floats, float32 [1, 3, 1, 1] each; sent to a device once."""
    scale = torch.tensor([1 / (255 * std) for std in STD], device=device)
    shift = torch.tensor([-mean / std for mean, std in zip(MEAN, STD, strict=True)], device=device)
    return scale.view(1, 3, 1, 1), shift.view(1, 3, 1, 1)
