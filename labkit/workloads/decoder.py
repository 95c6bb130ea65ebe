"""A toy decoder: a small language model with random weights and a cache of keys and values, one place a sequence.

Reading a prompt and making the next token are the same pass, over many tokens and over one. What a pass has written at a position is
read by every later one; positions after a sequence's own are masked, so what lies there does not matter.
(A. Radford et al., "Language models are unsupervised multitask learners", 2019, for the form.)
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from labkit.workloads.encoder import join_heads, split_heads


@dataclass(frozen=True)
class DecoderShape:
    """The sizes of a decoder."""

    vocabulary: int
    width: int
    heads: int
    layers: int


DECODERS = {"small": DecoderShape(512, 128, 4, 4), "large": DecoderShape(8_192, 512, 8, 8)}


class KeyValueCache:
    """Keys and values of every layer: float32 [2, places, heads, positions, D] a layer. Grows by places when one is first used."""

    def __init__(self, shape: DecoderShape, positions: int, device: torch.device):
        self._form = (shape.heads, positions, shape.width // shape.heads)
        self._layers = [torch.zeros(2, 0, *self._form, device=device) for _ in range(shape.layers)]

    @property
    def places(self) -> int:
        """How many sequences there is room for."""
        return self._layers[0].shape[1]

    def reserve(self, places: int) -> None:
        """Make room for at least so many sequences."""
        if places > self.places:
            more = (2, places - self.places, *self._form)
            self._layers = [torch.cat([layer, layer.new_zeros(more)], dim=1) for layer in self._layers]

    def write(self, layer: int, places_N: torch.Tensor, positions_NT: torch.Tensor, keys_NHTD: torch.Tensor, values_NHTD: torch.Tensor) -> None:
        """Keep what a pass has made."""
        for kept, made in zip(self._layers[layer], (keys_NHTD, values_NHTD), strict=True):
            kept[places_N[:, None], :, positions_NT] = made.transpose(1, 2)

    def read(self, layer: int, places_N: torch.Tensor, reach: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of these sequences, float32 [N, heads, reach, D] each, from their first position on."""
        keys, values = self._layers[layer]
        return keys[places_N, :, :reach], values[places_N, :, :reach]


class CountedCache(KeyValueCache):
    """For counting on meta tensors: moves what the cache moves, and no more (an indexed write would be counted as the whole cache)."""

    def __init__(self, shape: DecoderShape):
        super().__init__(shape, 0, torch.device("meta"))

    def write(self, layer: int, places_N: torch.Tensor, positions_NT: torch.Tensor, keys_NHTD: torch.Tensor, values_NHTD: torch.Tensor) -> None:
        """Read and written once."""
        keys_NHTD.clone(), values_NHTD.clone()

    def read(self, layer: int, places_N: torch.Tensor, reach: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Gathered: read and written once."""
        heads, _, size = self._form
        form = (len(places_N), heads, reach, size)
        return torch.empty(form, device="meta").clone(), torch.empty(form, device="meta").clone()


class Decoder(nn.Module):
    """tokens int64 [N, T] at positions int64 [N, T] → logits float32 [N, T, vocabulary]; attends to the `reach` first positions of each
    sequence, as far as they are not after its own."""

    def __init__(self, shape: DecoderShape, positions: int):
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(positions, shape.width)
        self.layers = nn.ModuleList(DecoderLayer(shape, place) for place in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)  # not the word vectors: untrained, they would say each word again

    def forward(
        self, tokens_NT: torch.Tensor, positions_NT: torch.Tensor, places_N: torch.Tensor, cache: KeyValueCache, reach: int
    ) -> torch.Tensor:
        hidden_NTC = self.words(tokens_NT) + self.positions(positions_NT)
        seen_NTR = torch.arange(reach, device=tokens_NT.device) <= positions_NT[..., None]
        mask_N1TR = torch.where(seen_NTR, 0.0, torch.finfo(torch.float32).min)[:, None]
        for layer in self.layers:
            hidden_NTC = layer(hidden_NTC, positions_NT, places_N, cache, mask_N1TR)
        return self.head(self.norm(hidden_NTC))


class DecoderLayer(nn.Module):
    """Attention over the cache and two dense layers, each normalised before it, with a shortcut around it."""

    def __init__(self, shape: DecoderShape, place: int):
        super().__init__()
        self.heads, self.place = shape.heads, place
        self.attention_norm, self.norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.query_key_value, self.output = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
        self.up, self.down = nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width)

    def forward(
        self, hidden_NTC: torch.Tensor, positions_NT: torch.Tensor, places_N: torch.Tensor, cache: KeyValueCache, mask_N1TR: torch.Tensor
    ) -> torch.Tensor:
        query, key, value = (split_heads(part, self.heads) for part in self.query_key_value(self.attention_norm(hidden_NTC)).chunk(3, dim=-1))
        cache.write(self.place, places_N, positions_NT, key, value)
        keys, values = cache.read(self.place, places_N, mask_N1TR.shape[-1])
        scores_NHTR = query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask_N1TR
        hidden_NTC = hidden_NTC + self.output(join_heads(scores_NHTR.softmax(dim=-1) @ values))
        return hidden_NTC + self.down(functional.gelu(self.up(self.norm(hidden_NTC))))
