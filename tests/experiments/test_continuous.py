"""Continuous batching as its users start it: on the CPU for real and on a simulated GPU, beside static batching, and with wrong input."""

from collections.abc import Iterator
from typing import Any

import pytest

import labkit
from labkit import experiments
from labkit.cli import run as run_command
from labkit.errors import KnobError
from labkit.experiments.continuous import EXPERIMENT, ContinuousKnobs
from labkit.result import Run
from labkit.runner.workers import Workers

SMALL = {"prompt_tokens": 4, "new_tokens": 4, "seconds": 1.0, "warmup": 2}


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    """Warm workers for all runs of this file."""
    with Workers() as workers:
        yield workers


@pytest.mark.parametrize("device", ["cpu", "simulated:h200"])
@pytest.mark.parametrize("batching", ["static", "continuous"])
def test_requests_get_their_tokens(pool: Workers, device: str, batching: str):
    run = labkit.run(EXPERIMENT, pool=pool, device=device, batching=batching, rate=30.0, **SMALL)
    assert run.record.status == "ok", run.record.reason
    answers = run.summary.requests.answers
    assert 0 < answers["served"] == run.summary.requests.sent
    assert run.record.results["answered"] == answers["served"]
    assert run.record.results["generated"] == run.trace["items"].sum(), "an item is a token that somebody wants"
    assert any("random weights" in note for note in run.record.notes)


def loaded(pool: Workers, batching: str) -> Run:
    return labkit.run(EXPERIMENT, pool=pool, device="simulated:h200", batching=batching, rate=200.0, seconds=10)


def test_under_load_continuous_batching_gives_more_tokens_sooner(pool: Workers):
    static, continuous = loaded(pool, "static"), loaded(pool, "continuous")
    assert continuous.summary.throughput.value > 1.5 * static.summary.throughput.value
    assert continuous.summary.requests.latency["p99"].value < static.summary.requests.latency["p99"].value / 5
    assert continuous.summary.requests.goodput.value > 2 * static.summary.requests.goodput.value


def test_the_command_line_runs_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any):
    monkeypatch.setitem(experiments._CATALOGUE, "continuous", "labkit.experiments.continuous")
    flags = ["continuous", "--batching", "static", "--device", "simulated:h200", "--seconds", "1", "--out", str(tmp_path)]
    assert run_command.main(flags) == 0
    shown = capsys.readouterr().out
    assert "predicted" in shown.lower() and "p99" in shown


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"batching": "dynamic"}, "static | continuous"),
        ({"max_batch": 0}, "max_batch"),
        ({"max_batch": 1025}, "max_batch"),
        ({"in_flight": 0}, "in_flight"),
        ({"prompt_tokens": 0}, "prompt_tokens"),
        ({"new_tokens": 513}, "new_tokens"),
        ({"tail": -0.1}, "tail"),
        ({"tail": "nan"}, "tail"),
        ({"model_size": "huge"}, "model_size"),
        ({"rate": 0}, "rate"),
        ({"policy": "greedy"}, "there is no knob 'policy'"),
        ({"bucket_by_length": True}, "there is no knob 'bucket_by_length'"),
    ],
)
def test_a_knob_that_cannot_be_is_refused_with_what_is_allowed(knobs: dict[str, Any], words: str):
    with pytest.raises(KnobError) as refusal:
        ContinuousKnobs.parse(knobs)
    assert words in str(refusal.value)


def test_every_preset_is_valid():
    for values in EXPERIMENT.presets.values():
        assert ContinuousKnobs.parse(values) != ContinuousKnobs()
