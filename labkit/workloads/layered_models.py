"""Models as a pile of equal layers, for streaming: a deep MLP, and a decoder that reads real text.

Written out, so that what is counted on meta tensors is what runs. Weights are random: what is measured is the work, and how far a
compressed model strays from itself.
"""

import math
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from labkit.workloads.encoder import join_heads, split_heads

Model = Literal["mlp", "decoder"]
HEAD_WIDTH = 64
BYTES = 256
"""The decoder's vocabulary: the bytes of a text."""


class DenseLayer(nn.Module):
    """hidden float32 [..., width] → the same: normalised, widened four times, narrowed, with a shortcut around it."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.down(functional.gelu(self.up(self.norm(hidden))))


class CausalLayer(nn.Module):
    """hidden float32 [N, T, width] → the same: attention to the tokens before, and a dense layer."""

    def __init__(self, width: int):
        super().__init__()
        self.heads = max(width // HEAD_WIDTH, 1)
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = DenseLayer(width)

    def forward(self, hidden_NTC: torch.Tensor) -> torch.Tensor:
        length = hidden_NTC.shape[1]
        query, key, value = (split_heads(part, self.heads) for part in self.query_key_value(self.attention_norm(hidden_NTC)).chunk(3, dim=-1))
        ahead = torch.ones(length, length, dtype=torch.bool, device=hidden_NTC.device).triu(1)
        scores_NHTT = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).masked_fill(ahead, torch.finfo(torch.float32).min)
        hidden_NTC = hidden_NTC + self.output(join_heads(scores_NHTT.softmax(dim=-1) @ value))
        return self.dense(hidden_NTC)


LAYERS: dict[str, type[nn.Module]] = {"mlp": DenseLayer, "decoder": CausalLayer}


def layer_of(model: Model, width: int, seed: int, number: int) -> nn.Module:
    """One layer with its random weights, the same whenever it is made; the generator of the process is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * 1_000_003 + number)
        return LAYERS[model](width).eval().requires_grad_(False)
