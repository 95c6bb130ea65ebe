"""What becomes of requests, in exact numbers, and in the numbers of queueing theory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labkit.metrics.gate import metrics_of
from labkit.metrics.pool import pool
from labkit.metrics.requests import RequestSummary
from labkit.metrics.summary import Summary, summarize
from labkit.schedule import Answer, Budget
from labkit.schedule.arrivals import OpenLoop
from labkit.trace.trace import no_requests
from tests.kernels.serving import MS, Served, serve

MODEL_MS = 10.0


def requests_of(run: Served) -> RequestSummary:
    summary = summarize(run.trace)
    assert summary.requests is not None
    return summary.requests


def thousand(**knobs: Any) -> Served:
    """A thousand requests, one every 20 ms, each served alone in 10 ms, and one of them frozen out."""
    return serve([20.0 * n for n in range(1001)], policy="none", in_flight=1, **knobs)


def test_latency_is_counted_from_when_a_request_was_due():
    requests = requests_of(serve([0, 1, 2, 3, 4], policy="none", in_flight=1))
    assert requests.latency["mean"].value == pytest.approx(np.mean([10, 19, 28, 37, 46]) * MS, rel=1e-4)
    assert requests.waiting["mean"].value == pytest.approx(np.mean([0, 9, 18, 27, 36]) * MS, rel=1e-4)


def test_a_server_that_freezes_for_a_second_shows_it_in_p99_and_a_closed_loop_would_not():
    freeze = iter([1000.0 if number == 500 else 1.0 for number in range(2000)])
    run = serve([5.0 * n for n in range(1001)], lambda n: next(freeze), policy="none", in_flight=1)
    assert requests_of(run).latency["p99"].value > 900 * MS
    own_ms = np.sort((np.array(run.column("done_ns")) - run.column("first_ns")) / MS)
    assert own_ms[int(0.99 * len(own_ms))] < 1.1, "from when each was sent: one slow request in a thousand"


def test_goodput_counts_what_kept_its_promise():
    run = thousand(slo=10.5)
    assert requests_of(run).goodput.value == pytest.approx(50, rel=1e-3)
    assert requests_of(thousand(slo=9.9)).goodput.value == 0
    nothing = requests_of(thousand()).goodput
    assert nothing.value is None
    assert nothing.reason == "no SLO was promised"


def test_those_that_got_no_answer_have_no_latency_but_are_counted():
    requests = requests_of(serve([0, 1, 2, 3, 4], policy="none", in_flight=1, queue_limit=2, fails=[1]))
    assert requests.answers == {"served": 2, "rejected": 2, "expired": 0, "failed": 1, "cancelled": 0}
    assert requests.sent == 5
    assert requests.latency["mean"].n == 2
    assert requests.unserved.value == 0.6


def test_percentiles_are_refused_where_too_few_were_served():
    latency = requests_of(serve([0, 20, 40], policy="none")).latency
    assert latency["p50"].value is not None
    assert latency["p99"].value is None
    assert "at least 100 samples" in str(latency["p99"].reason)
    assert requests_of(thousand()).latency["p99.9"].value == pytest.approx(10 * MS, rel=1e-4)


def test_batches_are_counted_by_size():
    requests = requests_of(serve([0, 1, 2, 3, 30, 60, 61], policy="greedy", in_flight=1))
    assert requests.batch_sizes == {1: 4, 3: 1}, "0; then 1 2 3; 30; 60; 61"


def test_padding_is_what_nobody_asked_for():
    lengths = [7, 10, 30, 100, 5]
    requests = requests_of(serve([0, 1, 1, 1, 40], policy="greedy", in_flight=1, lengths=lengths))
    assert requests.padding.value == pytest.approx(1 - (7 + 10 + 30 + 100 + 5) / (7 + 3 * 100 + 5))


def in_system_by_counting(run: Served) -> float:
    """The mean number in the system, by going from event to event."""
    due, done = np.array(run.column("due_ns")), np.array(run.column("done_ns"))
    events = sorted([(time, 1) for time in due] + [(time, -1) for time in done])
    area, count, before = 0, 0, events[0][0]
    for time, change in events:
        area += count * (time - before)
        count, before = count + change, time
    return area / (due.max() - due.min())


@pytest.mark.parametrize("policy", ["none", "greedy", "fixed"])
def test_littles_law_holds(policy: str):
    run = serve(OpenLoop(120, seed=3), lambda n: 5.0 + n, policy=policy, in_flight=1, budget=Budget(seconds=20, warmup=5))
    assert requests_of(run).in_system.value == pytest.approx(in_system_by_counting(run), rel=1e-9)


def test_the_summary_comes_back_from_plain_data():
    summary = summarize(thousand(slo=10.5).trace)
    assert Summary.from_dict(summary.as_dict()) == summary
    old = summary.as_dict()
    del old["requests"]
    assert Summary.from_dict(old).requests is None


def test_a_run_that_serves_nothing_has_no_requests():
    summary = summarize(replace(thousand().trace, requests=no_requests()))
    assert summary.requests is None
    assert "requests" not in summary.as_dict()


def test_rounds_are_pooled_by_their_requests_and_never_by_their_percentiles():
    rounds = [serve(OpenLoop(60, seed=seed), lambda n: 9.0 + n, policy="greedy", budget=Budget(seconds=4, warmup=2)) for seed in range(4)]
    pooled = pool([run.trace for run in rounds]).requests
    alone = [requests_of(run) for run in rounds]
    assert pooled.sent == sum(requests.sent for requests in alone)
    assert pooled.latency["p99"].n == sum(requests.latency["p99"].n for requests in alone)
    assert min(r.latency["p95"].value for r in alone) < pooled.latency["p95"].value < max(r.latency["p95"].value for r in alone)
    assert pooled.batch_sizes[1] == sum(requests.batch_sizes[1] for requests in alone)


def test_every_metric_of_requests_can_stand_in_a_rule_and_knows_which_way_is_better():
    metrics = metrics_of(summarize(thousand(slo=10.5).trace))
    assert metrics["latency p99"].better == "lower"
    assert metrics["goodput"].better == "higher"
    assert metrics["unserved"].better == "lower"


# ---- closed forms --------------------------------------------------------------------------------------------


def latencies_ms(run: Served, warmup: int = 2000) -> np.ndarray:
    assert set(run.answers) == {Answer.SERVED}
    return ((np.array(run.column("done_ns")) - run.column("due_ns")) / MS)[warmup:]


def queue(rate: float, takes_ms: Any, seed: int, requests: int, **knobs: Any) -> np.ndarray:
    settings = {"policy": "none", "in_flight": 1, "max_batch": 1, "queue_limit": 1_000_000, **knobs}
    return latencies_ms(serve(OpenLoop(rate, seed=seed), takes_ms, budget=Budget(seconds=requests / rate, warmup=0), **settings))


def test_at_half_load_a_fixed_service_time_gives_the_mean_of_m_d_1():
    """W = s + ρ s / 2 (1 − ρ): Pollaczek and Khinchine."""
    assert queue(50, lambda n: MODEL_MS, 11, 40_000).mean() == pytest.approx(15.0, rel=0.02)


def test_at_half_load_an_exponential_service_time_gives_the_mean_and_p99_of_m_m_1():
    """The time in the system is exponential with mean s / (1 − ρ)."""
    random = np.random.default_rng(5)
    latency = queue(50, lambda n: float(random.exponential(MODEL_MS)), 12, 40_000)
    assert latency.mean() == pytest.approx(20.0, rel=0.04)
    assert np.quantile(latency, 0.99) == pytest.approx(20.0 * np.log(100), rel=0.08)


def test_the_test_of_closed_forms_notices_a_server_that_loses_time():
    assert queue(50, lambda n: MODEL_MS * 1.03, 11, 40_000).mean() != pytest.approx(15.0, rel=0.02)
