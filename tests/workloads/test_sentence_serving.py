"""Sentences as a serving workload: the same embedding whatever the batch and whoever makes the tokens, costs of the padded shape."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labkit.data import datasets_root
from labkit.data.sentences import Sentences
from labkit.schedule import Op, Request, Step
from labkit.workloads.encoder import EncoderShape, SentenceEncoder
from labkit.workloads.footprint import footprint
from labkit.workloads.sentence_serving import NS_PER_TOKEN, SentenceServing, padded, random_serving
from labkit.workloads.tokens import HashedWords

FILE = datasets_root() / "text" / "sentences.txt"
SMALL = EncoderShape(vocabulary=2_000, positions=256, width=24, heads=3, inner=48, layers=2)


def knobs(tokenize_on: str = "workers", seed: int = 0) -> SimpleNamespace:
    return SimpleNamespace(seed=seed, max_batch=4, tokenize_on=tokenize_on)


def serving(where: str = "cpu") -> SentenceServing:
    return random_serving(FILE, knobs(), where, SMALL)


def ops_of(workload: SentenceServing, ids: list[int], slot: int = 0, tokenize_on: str = "workers") -> list[Op]:
    requests = [Request(number, 0) for number in ids]
    return workload.stages(Step(0, knobs(tokenize_on)), slot, [(request, workload.length(request)) for request in requests])


def run(ops: list[Op]) -> torch.Tensor:
    value: tuple[Any, ...] = ()
    for op in ops:
        value = (op.run(*value),)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return value[0].clone()


def test_an_embedding_does_not_depend_on_the_batch_nor_on_who_makes_the_tokens():
    workload = serving()
    alone = torch.cat([run(ops_of(workload, [number])) for number in range(12)])
    assert torch.allclose(run(ops_of(workload, list(range(12)))), alone, atol=1e-5)
    assert torch.allclose(run(ops_of(workload, list(range(12)), slot=1, tokenize_on="host")), alone, atol=1e-5)
    assert torch.pdist(alone).min() > 1e-3, "twelve sentences, twelve embeddings"


def test_a_buffer_that_held_a_longer_batch_does_not_leak_into_the_next():
    workload = serving()
    number = min(range(20), key=lambda number: workload.length(Request(number, 0)))
    before = run(ops_of(workload, [number]))
    run(ops_of(workload, list(range(20))))
    assert torch.equal(run(ops_of(workload, [number])), before)


def test_tokens_are_made_where_the_knob_says():
    workload = serving("simulated")
    assert [op.lane.role for op in ops_of(workload, [0])] == ["workers", "h2d", "compute", "d2h"]
    assert ops_of(workload, [0], tokenize_on="host")[0].lane.role == "host"


def test_a_batch_is_billed_for_its_padding():
    workload = serving("simulated")
    lengths = [workload.length(Request(number, 0)) for number in range(5)]
    tokenize, copy, forward, embeddings = ops_of(workload, list(range(5)))
    longest = padded(max(lengths))
    assert tokenize.cost.fixed_ns == NS_PER_TOKEN * sum(lengths)
    assert copy.cost.bytes == 4 * 5 * longest
    assert forward.cost.flop == 5 * 2 * (2 * longest * (4 * 24 * 24 + 2 * 24 * 48) + 4 * longest**2 * 24)
    assert (embeddings.cost.bytes, embeddings.items) == (4 * 5 * 24, 5)


@pytest.mark.parametrize(("count", "tokens"), [(1, 8), (1, 256), (2, 24), (3, 8), (7, 72), (64, 256)])
def test_the_cost_of_a_shape_is_what_counting_it_gives(count: int, tokens: int):
    with torch.device("meta"):
        encoder, tokens_NL = SentenceEncoder(SMALL), torch.empty(count, tokens, dtype=torch.int32)
    with torch.no_grad():
        counted, _ = footprint(lambda: encoder(tokens_NL))
    assert serving("simulated")._costs.cost(count, tokens) == counted


@pytest.mark.parametrize(("tokens", "becomes"), [(1, 8), (8, 8), (9, 16), (256, 256)])
def test_lengths_are_padded_to_eight(tokens: int, becomes: int):
    assert padded(tokens) == becomes


def test_every_sentence_is_asked_for_once_before_any_comes_again_in_an_order_of_the_seed():
    def lengths(seed: int, first: int) -> list[int]:
        workload = random_serving(FILE, knobs(seed=seed), "simulated", SMALL)
        return [workload.length(Request(first + number, 0)) for number in range(206)]

    expected = sorted(len(HashedWords(2_000).tokens(text)) for text in Sentences.open(FILE).texts)
    assert sorted(lengths(0, 0)) == expected
    assert lengths(0, 0) == lengths(0, 206) != lengths(1, 0)


def test_what_was_embedded_is_counted_and_a_new_run_begins_anew():
    workload = serving("simulated")
    requests = [Request(0, 0), Request(1, 0)]
    workload.answered(Step(0, knobs()), requests, None)
    assert workload.results() == {"embedded": 2, "tokens": sum(map(workload.length, requests))}
    workload.begin()
    assert workload.results() == {"embedded": 0, "tokens": 0}


def test_random_weights_and_cut_sentences_are_said():
    weights, cut = serving("simulated").notes()
    assert "the weights are random" in weights
    assert cut.startswith("1 of 206 sentences fill the 256 tokens")


@pytest.mark.cuda
def test_a_gpu_gives_the_embeddings_that_the_cpu_gives():
    if not torch.cuda.is_available():
        pytest.skip("torch.cuda.is_available() is false: there is no CUDA GPU here")
    ids = list(range(16))
    there = run(ops_of(random_serving(FILE, knobs(), "cuda:0", SMALL), ids))
    assert np.allclose(there.numpy(), run(ops_of(serving(), ids)).numpy(), atol=1e-3)
