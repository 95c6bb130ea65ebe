"""A small training of a user's own for tests: points on either side of a line, and a linear model that tells them apart."""

from typing import Any

import torch
from torch import nn

from labkit.experiments.user import UserKnobs
from labkit.workloads.parts import Learning, Loading, Packed

WIDE, CLASSES = 10, 2


class Points:
    """`count` points of ten numbers, each with whether their sum is positive."""

    def __init__(self, count: int = 100):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        point = torch.randn(WIDE, generator=torch.Generator().manual_seed(index))
        return point, int(point.sum() > 0)


class Linear(nn.Module):
    """One linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDE, CLASSES)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.head(points)


class Choosy(Linear):
    """Looks at its input's values to decide what to do."""

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.head(points if points.sum() > 0 else -points)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def parts(dataset: Any = None, model: Any = Linear, loss: Any = nn.functional.cross_entropy, optimizer: Any = sgd, collate: Any = None) -> Packed:
    return Packed.of(Loading(Points() if dataset is None else dataset, collate), Learning(model, loss, optimizer))


def knobs(**values: Any) -> UserKnobs:
    return UserKnobs.parse({"batch_size": 4, **values})
