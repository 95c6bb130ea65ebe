"""The model of the benchmark `disk-stream`: what every contender streams from disk, and the passes that are timed."""

import sys
from collections.abc import Callable
from time import perf_counter

import torch

LAYERS, WIDTH, SEED = 8, 1024, 0
WARM_PASSES = 2


def batch() -> torch.Tensor:
    """The rows of a pass, as many as the command line says."""
    return torch.randn(int(sys.argv[1]), WIDTH, generator=torch.Generator().manual_seed(SEED))


def seconds_a_pass(one: Callable[[], object], passes: int) -> float:
    """The mean time of a pass, after a few that are not counted."""
    for _ in range(WARM_PASSES):
        one()
    began = perf_counter()
    for _ in range(passes):
        one()
    return (perf_counter() - began) / passes
