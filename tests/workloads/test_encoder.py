"""The sentence encoder: unit vectors that do not depend on who shares the batch, and its work by hand."""

import pytest
import torch

from labkit.workloads.encoder import MINILM, EncoderShape, SentenceEncoder
from labkit.workloads.footprint import footprint

SMALL = EncoderShape(vocabulary=300, positions=64, width=24, heads=3, inner=48, layers=2)


@pytest.fixture
def encoder() -> SentenceEncoder:
    torch.manual_seed(0)
    return SentenceEncoder(SMALL).eval()


def padded(rows: list[torch.Tensor], length: int) -> torch.Tensor:
    return torch.stack([torch.cat([row, torch.zeros(length - len(row), dtype=torch.int64)]) for row in rows])


@torch.inference_mode()
def test_a_sentence_alone_and_in_a_padded_batch_has_the_same_embedding(encoder: SentenceEncoder):
    rows = [torch.randint(1, 300, (length,), generator=torch.Generator().manual_seed(length)) for length in (2, 40, 7, 64, 19)]
    together = encoder(padded(rows, 64))
    for row, embedding in zip(rows, together, strict=True):
        assert torch.allclose(encoder(row[None])[0], embedding, atol=1e-6)
    assert torch.allclose(together.norm(dim=1), torch.ones(5))


@torch.inference_mode()
def test_another_word_or_another_order_gives_another_embedding(encoder: SentenceEncoder):
    ahead, back, other = encoder(torch.tensor([[5, 6, 7], [7, 6, 5], [5, 6, 8]]))
    assert (ahead - back).norm() > 1e-3
    assert (ahead - other).norm() > 1e-3


def test_the_work_of_a_pass_is_that_of_its_matrix_products():
    count, length, c, inner = 4, 32, MINILM.width, MINILM.inner
    with torch.device("meta"):
        encoder, tokens_NL = SentenceEncoder(MINILM), torch.empty(count, length, dtype=torch.int32)
    with torch.no_grad():
        cost, embeddings = footprint(lambda: encoder(tokens_NL))
    dense = 2 * count * length * (4 * c * c + 2 * c * inner)
    attention = 2 * 2 * count * length * length * c
    assert cost.flop == MINILM.layers * (dense + attention)
    assert embeddings.shape == (4, 384)


def test_it_has_the_weights_of_minilm():
    with torch.device("meta"):
        count = sum(weight.numel() for weight in SentenceEncoder(MINILM).parameters())
    c, inner = 384, 1_536
    layer = 4 * (c * c + c) + 2 * c * inner + inner + c + 2 * 2 * c
    assert count == (30_522 + 512 + 2) * c + 2 * c + 6 * layer == 22_565_376
