"""The batching experiment as its users start it: on the CPU for real, on a simulated GPU, from recorded arrivals, and with wrong input."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit
from labkit.device.cost_model import MeasuredOp
from labkit.errors import DataError, ExperimentError, KnobError, TraceError
from labkit.experiments import experiment
from labkit.lab import recipe_of, stored_run
from labkit.metrics.critical_path import critical_path
from labkit.metrics.load import backlog_of_warmup
from labkit.metrics.summary import summarize
from labkit.metrics.verdict import judge
from labkit.metrics.whatif import Change
from labkit.metrics.window import steady_window
from labkit.result import Run
from labkit.runner.execute import execute
from labkit.runner.job import Job
from labkit.runner.workers import Workers
from labkit.schedule import Answer, Budget, Cost, Request, Step
from labkit.schedule.arrivals import OpenLoop
from labkit.trace.trace import no_requests
from labkit.whatif import by_knobs, by_replay
from tests.in_process import InProcess
from tests.kernels.serving import serve

SMALL = {"image_size": 32, "rate": 200.0, "seconds": 1.0, "warmup": 2}
KNOBS_OF_SMALL = {"image_size": 32, "rate": 200.0}


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    """Warm workers for all runs of this file."""
    with Workers() as workers:
        yield workers


VIRTUAL: Any = InProcess()


def balance(run: Run) -> None:
    requests = run.summary.requests
    assert requests.sent == sum(requests.answers.values())
    assert requests.answers["served"] > 0


@pytest.mark.parametrize("device", ["cpu", "simulated:h200"])
@pytest.mark.parametrize("preprocess_on", ["cpu", "gpu"])
def test_photos_are_classified_as_they_come(pool: Workers, device: str, preprocess_on: str):
    run = labkit.run("batching", pool=pool if device == "cpu" else VIRTUAL, device=device, preprocess_on=preprocess_on, **SMALL)
    assert run.record.status == "ok", run.record.reason
    balance(run)
    answers = run.summary.requests.answers
    assert answers["served"] == run.summary.requests.sent
    assert run.record.results["classified"] == answers["served"]
    assert ("normalise" in run.summary.ops) == (preprocess_on == "gpu")


def test_what_is_classified_does_not_depend_on_the_batch_nor_on_where_bytes_become_floats():
    import torch

    from labkit.data.locate import datasets_root
    from labkit.data.photos import Photos
    from labkit.schedule import Request, Step
    from labkit.workloads.photo_serving import PhotoServing

    def images(preprocess_on: str, sizes: list[int]) -> torch.Tensor:
        knobs = experiment("batching").knobs.parse({"image_size": 32, "preprocess_on": preprocess_on})
        workload = PhotoServing(Photos.open(datasets_root() / "photos"), knobs, "cpu")
        batches: list[torch.Tensor] = []
        for index, size in enumerate(sizes):
            requests = [(Request(sum(sizes[:index]) + place, 0), 1) for place in range(size)]
            *before, classify, to_host = workload.stages(Step(index, knobs), 0, requests)
            value: tuple[Any, ...] = ()
            for op in before:
                value = (op.run(*value),)
            assert len(to_host.run(classify.run(*value))) == size
            batches.append(value[0].clone())
        return torch.cat(batches)

    alone = images("cpu", [1] * 12)
    assert torch.equal(images("cpu", [5, 7]), alone)
    assert torch.equal(images("gpu", [12]), alone)
    assert len({image.sum().item() for image in alone}) == 12


def test_recorded_arrivals_are_replayed_and_end_the_run(tmp_path: Path):
    file = tmp_path / "arrivals.csv"
    file.write_text("time_s\n" + "\n".join(str(n / 100) for n in range(50)))
    run = labkit.run("batching", pool=VIRTUAL, device="simulated:h200", model="fixed", replay=str(file), seconds=60, warmup=0)
    assert run.summary.requests.sent == 50
    assert run.trace.requests["due_ns"].tolist() == [n * 10_000_000 for n in range(50)]


def test_a_fixed_model_takes_the_time_it_says_on_the_cpu(pool: Workers):
    run = labkit.run("batching", pool=pool, device="cpu", model="fixed", batch_ms=4.0, item_ms=1.0, policy="none", rate=50.0, seconds=1.0, warmup=2)
    took = run.summary.ops["model"]
    assert 5e6 <= took.p50_ns < 9e6


def test_the_same_request_pattern_reaches_every_device(pool: Workers):
    pools = {"cpu": pool, "simulated:h200": VIRTUAL}
    runs = [labkit.run("batching", pool=pools[device], device=device, model="fixed", seconds=0.5, warmup=0) for device in pools]
    ids = [np.sort(run.trace.requests["due_ns"])[:10].tolist() for run in runs]
    assert ids[0] == ids[1]


def test_a_run_is_saved_with_its_requests_and_comes_back(tmp_path: Path):
    run = labkit.run("batching", pool=VIRTUAL, device="simulated:h200", model="fixed", seconds=2, out=tmp_path)
    again = stored_run("last", tmp_path)
    assert again.summary == run.summary
    assert np.array_equal(again.trace.requests["done_ns"], run.trace.requests["done_ns"])


def test_a_rate_beyond_what_can_be_served_is_rejected_not_lost():
    run = labkit.run(
        "batching", pool=VIRTUAL, device="simulated:h200", model="fixed", batch_ms=10.0, item_ms=10.0, rate=1000.0, queue_limit=20, seconds=2,
    )  # fmt: skip
    balance(run)
    answers = run.summary.requests.answers
    assert answers["rejected"] > answers["served"]


def test_two_settings_are_compared_by_their_tail():
    both = labkit.compare(
        "batching", pool=VIRTUAL, device="simulated:h200", a={"model": "fixed", "policy": "none", "rate": 250.0},
        b={"model": "fixed", "policy": "greedy", "rate": 250.0}, seconds=4, rounds=3,
    )  # fmt: skip
    assert both.comparison.ratios["latency p99"].value < 1


def test_what_a_photo_that_cannot_be_decoded_costs_is_said(pool: Workers, tmp_path: Path):
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (64, 64)).save(tmp_path / name / "good.jpg")
    whole = (tmp_path / "a" / "good.jpg").read_bytes()
    (tmp_path / "b" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    run = labkit.run("batching", pool=pool, device="cpu", data=str(tmp_path), image_size=16, rate=100.0, seconds=0.5, warmup=0)
    assert run.record.status == "ok", run.record.reason
    balance(run)
    assert any("unreadable files were left out" in note or "could not be decoded" in note for note in run.record.notes)


# ---- wrong input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"rate": 0}, "rate"),
        ({"rate": -5}, "rate"),
        ({"rate": 1e9}, "rate"),
        ({"rate": "nan"}, "rate"),
        ({"rate": "many"}, "rate"),
        ({"arrivals": "wavy"}, "poisson"),
        ({"policy": "best"}, "greedy"),
        ({"max_batch": 0}, "max_batch"),
        ({"max_batch": 4097}, "max_batch"),
        ({"max_batch": 1.5}, "max_batch"),
        ({"max_delay": -1}, "max_delay"),
        ({"max_delay": "inf"}, "max_delay"),
        ({"in_flight": 0}, "in_flight"),
        ({"in_flight": 65}, "in_flight"),
        ({"queue_limit": 0}, "queue_limit"),
        ({"deadline": -0.1}, "deadline"),
        ({"slo": 0}, "slo"),
        ({"slo": -50}, "slo"),
        ({"workers": 0}, "workers"),
        ({"preprocess_on": "tpu"}, "preprocess_on"),
        ({"model": "huge"}, "model"),
        ({"model_size": "medium"}, "model_size"),
        ({"image_size": 8}, "image_size"),
        ({"batch_ms": -1}, "batch_ms"),
        ({"model": "fixed", "batch_ms": 0, "item_ms": 0}, "takes no time"),
        ({"seed": -1}, "seed"),
        ({"tenants": 3}, "there is no knob 'tenants'"),
        ({"bucket_by_length": "perhaps"}, "bucket_by_length"),
    ],
)
def test_a_knob_that_cannot_be_is_refused_with_what_is_allowed(knobs: dict[str, Any], words: str):
    with pytest.raises(KnobError, match=words):
        labkit.run("batching", pool=VIRTUAL, device="simulated:h200", **knobs)


@pytest.mark.parametrize("text", ["", "time_s\n", "2\n1\n"])
def test_a_replay_that_cannot_be_used_fails_the_run_with_the_reason(tmp_path: Path, text: str):
    file = tmp_path / "arrivals.csv"
    file.write_text(text)
    run = labkit.run("batching", pool=VIRTUAL, device="simulated:h200", model="fixed", replay=str(file))
    assert run.record.status == "failed"
    assert "arrivals.csv" in run.record.reason


def test_a_model_of_known_cost_is_refused_on_a_gpu():
    chosen = experiment("batching")
    knobs = chosen.knobs.parse({"model": "fixed"})
    with pytest.raises(DataError, match="use model=photos, or device=cpu or simulated"):
        chosen.prepare(knobs, "cuda:0")


def test_an_experiment_that_serves_must_say_where_requests_come_from():
    chosen = experiment("batching")
    knobs = chosen.knobs.parse({"model": "fixed"})
    recipe = recipe_of(chosen)
    job = Job(type(recipe)(recipe.name, recipe.kernel, recipe.prepare, recipe.widths), knobs, "simulated:h200", Budget(steps=3))
    outcome = execute(job, chosen.prepare(knobs, "simulated"))
    assert outcome.status == "failed"
    assert "must declare them" in outcome.failure


def test_the_arrivals_of_a_wrong_shape_are_refused():
    with pytest.raises(ExperimentError, match="there are: constant, poisson"):
        OpenLoop(1.0, "wavy")


def test_every_answer_has_a_word():
    assert [answer.name for answer in Answer] == ["SERVED", "REJECTED", "EXPIRED", "FAILED", "CANCELLED"]


def test_a_server_s_waits_are_for_requests_and_delays_and_its_batches_are_not_replayed():
    run = labkit.run("batching", device="simulated:l4", model="fixed", rate=100.0, seconds=2, out=None)
    assert "itself waiting for the next request or a delay" in run.summary.bottleneck
    assert "waiting for the next request or a delay" in critical_path(run.trace, 4).shares()
    assert "set time" not in " ".join(run.summary.waiting["compute"])
    with pytest.raises(TraceError, match=r"requests come when they come .*turn a knob instead"):
        by_replay(run, Change({"model": 0.5}))


def test_what_if_of_a_server_tells_its_tail(monkeypatch: pytest.MonkeyPatch):
    run = labkit.run("batching", device="simulated:l4", model="fixed", rate=200.0, seconds=5, out=None)
    measured = replace(run, record=replace(run.record, measured=True, device="cpu"))
    monkeypatch.setattr("labkit.lab.predict", lambda name, on, costs, steps, **knobs: labkit.run(name, device="simulated:l4", steps=steps, out=None, **knobs))
    answer = by_knobs(measured, {"policy": "none"})
    was, now, then = answer.p99_ns
    assert was == run.summary.requests.latency["p99"].value
    assert then > now > 0, "one request at a time waits longer at the same rate"
    assert answer.as_dict()["p99_ns"] == answer.p99_ns


def test_the_time_of_a_batch_of_known_cost_is_predicted_by_its_size():
    seen = MeasuredOp(3.0e6, Cost(fixed_ns=2_500_000))
    assert seen.scaled_ns(Cost(fixed_ns=5_000_000)) == pytest.approx(6.0e6)
    assert seen.scaled_ns(Cost()) == 3.0e6


@pytest.mark.parametrize("model", ["photos", "embedding-random"])
def test_the_host_counts_no_costs_while_requests_wait(model: str):
    """What an op costs is counted before the first request comes: the first one must not wait for that."""
    knobs = experiment("batching").knobs.parse({**KNOBS_OF_SMALL, "model": model, "max_batch": 40})
    workload = experiment("batching").prepare(knobs, "simulated")
    counted = workload._counted_cost
    workload._counted_cost = lambda *shape: pytest.fail(f"{shape} was counted while requests wait")
    requests = [(Request(number, 0), workload.length(Request(number, 0))) for number in range(37)]
    for count in (1, 2, 3, 5, 16, 37):
        ops = workload.stages(Step(0, knobs), 0, requests[:count])
        if model == "photos":
            assert next(op.cost for op in ops if op.name == "classify") == counted(count)


def test_a_backlog_that_the_warm_up_left_is_a_doubt():
    """The first batch takes a second: the requests of that second are worked off within the window."""
    first = [1000.0]
    takes_ms = lambda n: first.pop() if first else 1.0 + n / 2  # noqa: E731
    run = serve(OpenLoop(300.0, "constant"), takes_ms, policy="greedy", in_flight=1, max_batch=2, budget=Budget(seconds=4, warmup=2))
    window = steady_window(run.trace, 2)
    assert "requests of the warm-up had no answer yet when counting began" in str(backlog_of_warmup(run.trace, window, 2))
    assert any("give a longer warm-up" in reason for reason in judge(summarize(run.trace, warmup_steps=2), run.trace, warmup_steps=2).reasons)
    even = serve(OpenLoop(300.0, "constant"), lambda n: 1.0, policy="greedy", in_flight=1, budget=Budget(seconds=2, warmup=2))
    assert backlog_of_warmup(even.trace, steady_window(even.trace, 2), 2) is None


def test_requests_that_were_not_kept_are_a_doubt_and_none_at_all_no_result():
    run = serve(OpenLoop(300.0, "constant"), lambda n: 1.0, policy="greedy", in_flight=1, budget=Budget(seconds=1, warmup=2))
    part = replace(run.trace, requests_dropped={int(Answer.REJECTED): 700})
    assert judge(summarize(part, warmup_steps=2), part, warmup_steps=2).reasons[0].startswith("the trace was full: 700 requests dropped, of 1,00")
    none = replace(part, requests=no_requests())
    verdict = judge(summarize(none, warmup_steps=2), none, warmup_steps=2)
    assert verdict.grade == "INVALID" and "nothing can be said of the requests" in verdict.reasons[0]
