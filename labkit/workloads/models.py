"""The image classifiers that labkit ships: a small and a larger residual CNN, with random weights."""

import torch
from torch import nn

WIDTHS = {"small": (16, 32, 64), "large": (32, 64, 128, 256)}


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut (K. He et al., "Deep residual learning", CVPR 2016); halves H and W."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels_out)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride=2, bias=False)

    def forward(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(images_NCHW)))
        return torch.relu(self.second_norm(self.second(inner)) + self.shortcut(images_NCHW))


class ResidualCNN(nn.Module):
    """images float32 [N, 3, H, W] → logits float32 [N, classes]."""

    def __init__(self, size: str, classes: int):
        super().__init__()
        widths = WIDTHS[size]
        self.stem = nn.Conv2d(3, widths[0], 3, stride=2, padding=1)
        pairs = zip(widths, [*widths[1:], widths[-1]], strict=True)
        self.blocks = nn.Sequential(*(ResidualBlock(before, after) for before, after in pairs))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, images_NCHW: torch.Tensor) -> torch.Tensor:
        features = self.blocks(torch.relu(self.stem(images_NCHW)))
        return self.head(features.mean(dim=(2, 3)))
