"""A sentence encoder of BERT's form: tokens in, one unit vector a sentence out, the mean over its tokens.

Written out, so that what is counted on meta tensors is what runs: attention is two matrix products and a softmax, not a fused kernel.
(J. Devlin et al., "BERT", NAACL 2019; N. Reimers and I. Gurevych, "Sentence-BERT", EMNLP 2019, for the mean over tokens.)
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

PADDING = 0
"""The token that is none."""


@dataclass(frozen=True)
class EncoderShape:
    """The sizes of an encoder; those of all-MiniLM-L6-v2 unless said otherwise."""

    vocabulary: int = 30_522
    positions: int = 512
    width: int = 384
    heads: int = 12
    inner: int = 1_536
    layers: int = 6


MINILM = EncoderShape()
NORM_EPSILON = 1e-12


class SentenceEncoder(nn.Module):
    """tokens int [N, L], 0 where a sentence has ended → float32 [N, width], each of length 1."""

    def __init__(self, shape: EncoderShape):
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.kinds = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.layers))

    def forward(self, tokens_NL: torch.Tensor) -> torch.Tensor:
        present_NL = tokens_NL != PADDING
        hidden_NLC = self.words(tokens_NL) + self.positions.weight[: tokens_NL.shape[1]] + self.kinds.weight[0]
        hidden_NLC = self.norm(hidden_NLC)
        unseen = torch.finfo(hidden_NLC.dtype).min
        mask_N11L = torch.where(present_NL, 0.0, unseen)[:, None, None, :]
        for layer in self.layers:
            hidden_NLC = layer(hidden_NLC, mask_N11L)
        weights_NL1 = present_NL.to(hidden_NLC.dtype)[..., None]
        mean_NC = (hidden_NLC * weights_NL1).sum(dim=1) / weights_NL1.sum(dim=1)
        return functional.normalize(mean_NC, dim=1)


class EncoderLayer(nn.Module):
    """Attention and two dense layers, each with its shortcut and normalised after it."""

    def __init__(self, shape: EncoderShape):
        super().__init__()
        self.heads = shape.heads
        self.query, self.key, self.value, self.output = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)
        self.up, self.down = nn.Linear(shape.width, shape.inner), nn.Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=NORM_EPSILON)

    def forward(self, hidden_NLC: torch.Tensor, mask_N11L: torch.Tensor) -> torch.Tensor:
        hidden_NLC = self.attention_norm(hidden_NLC + self.output(self._attend(hidden_NLC, mask_N11L)))
        return self.norm(hidden_NLC + self.down(functional.gelu(self.up(hidden_NLC))))

    def _attend(self, hidden_NLC: torch.Tensor, mask_N11L: torch.Tensor) -> torch.Tensor:
        query, key, value = (split_heads(part(hidden_NLC), self.heads) for part in (self.query, self.key, self.value))
        scores_NHLL = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask_N11L
        return join_heads(scores_NHLL.softmax(dim=-1) @ value)


def split_heads(hidden_NLC: torch.Tensor, heads: int) -> torch.Tensor:
    """[N, L, C] → [N, heads, L, C ÷ heads]."""
    return hidden_NLC.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(hidden_NHLD: torch.Tensor) -> torch.Tensor:
    """[N, heads, L, D] → [N, L, heads × D]."""
    return hidden_NHLD.transpose(1, 2).flatten(2)
