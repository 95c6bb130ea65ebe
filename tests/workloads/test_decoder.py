"""The toy decoder and its cache: a token at a time gives what all at once gives, and its work by hand."""

import pytest
import torch

from labkit.workloads.decoder import DECODERS, CountedCache, Decoder, DecoderShape, KeyValueCache
from labkit.workloads.footprint import footprint

SHAPE = DecoderShape(vocabulary=40, width=24, heads=3, layers=2)
POSITIONS = 32
CPU = torch.device("cpu")


@pytest.fixture
def model() -> Decoder:
    torch.manual_seed(0)
    return Decoder(SHAPE, POSITIONS).eval()


def cache_of(places: int) -> KeyValueCache:
    cache = KeyValueCache(SHAPE, POSITIONS, CPU)
    cache.reserve(places)
    return cache


@torch.inference_mode()
def test_token_by_token_gives_the_logits_of_all_at_once(model: Decoder):
    tokens = torch.randint(40, (1, 20))
    places, positions = torch.tensor([0]), torch.arange(20)[None]
    whole = model(tokens, positions, places, cache_of(1), 20)
    cache = cache_of(1)
    for at in range(20):
        part = model(tokens[:, at : at + 1], positions[:, at : at + 1], places, cache, at + 1)
        assert torch.allclose(part[:, 0], whole[:, at], atol=1e-5)


@torch.inference_mode()
def test_what_lies_behind_a_sequence_in_the_cache_does_not_matter(model: Decoder):
    tokens, positions, places = torch.randint(40, (1, 5)), torch.arange(5)[None], torch.tensor([0])
    clean, dirty = cache_of(1), cache_of(1)
    for layer in dirty._layers:
        layer.fill_(1e3)
    assert torch.allclose(model(tokens, positions, places, dirty, 16), model(tokens, positions, places, clean, 5), atol=1e-5)


@torch.inference_mode()
def test_a_cache_that_grows_keeps_what_it_has(model: Decoder):
    cache, tokens = cache_of(1), torch.randint(40, (1, 6))
    model(tokens, torch.arange(6)[None], torch.tensor([0]), cache, 6)
    before = [layer.clone() for layer in cache._layers]
    cache.reserve(3)
    cache.reserve(2)
    assert cache.places == 3
    assert all(torch.equal(layer[:, :1], was) for layer, was in zip(cache._layers, before, strict=True))


@pytest.mark.parametrize(("tokens", "reach"), [(16, 16), (1, 64)])
def test_the_work_of_a_pass_is_that_of_its_matrix_products(tokens: int, reach: int):
    count, shape = 3, DECODERS["small"]
    with torch.device("meta"):
        model, numbers = Decoder(shape, 512), torch.empty(count, tokens, dtype=torch.int64)
        places = torch.empty(count, dtype=torch.int64)
    with torch.no_grad():
        cost, _ = footprint(lambda: model(numbers, numbers, places, CountedCache(shape), reach))
    c = shape.width
    layer = 2 * tokens * 12 * c * c + 2 * 2 * tokens * reach * c
    assert cost.flop == count * (shape.layers * layer + 2 * tokens * c * shape.vocabulary)


def test_counting_does_not_bill_the_whole_cache_for_one_token():
    def bytes_of(reach: int) -> int:
        with torch.device("meta"):
            model, numbers = Decoder(SHAPE, POSITIONS), torch.empty(2, 1, dtype=torch.int64)
            places = torch.empty(2, dtype=torch.int64)
        with torch.no_grad():
            return footprint(lambda: model(numbers, numbers, places, CountedCache(SHAPE), reach))[0].bytes

    a_layers_keys_and_values = 2 * SHAPE.width * 4
    per_position = (bytes_of(16) - bytes_of(8)) / 8 / 2
    passes = per_position / (SHAPE.layers * a_layers_keys_and_values)
    assert 3 < passes < 4, "gathering reads and writes, the product reads; scores and mask are small"
