"""Measured wrongly on purpose: each mistake against an answer that is known, and beside what the summary says."""

import numpy as np
import pytest

from labkit.metrics import summarize
from labkit.metrics.mistakes import LOAD, Mistake, _latencies_ns, mistakes
from labkit.trace import Trace
from labkit.units import NS_PER_MS, NS_PER_S
from tests.metrics.virtual_runs import op, pipeline, run


def of_pipeline(steps: int = 260, prefetch: int = 2, **times: int) -> Trace:
    return run(lambda device: pipeline(device, steps, prefetch, **times), {"workers": 1})


def found(trace: Trace, warmup: int = 10) -> dict[str, Mistake]:
    return {mistake.name: mistake for mistake in mistakes(trace, warmup)}


def test_what_is_right_is_what_the_summary_says():
    trace = of_pipeline(decode=400)
    summary, made = summarize(trace, warmup_steps=10), found(trace)
    assert made["no sync"].right == made["warm-up included"].right == summary.throughput.value
    assert made["mean of percentiles"].right == summary.step_interval["p95"].value / NS_PER_MS
    assert made["mean alone"].right == summary.step_interval["p95"].value / NS_PER_MS
    assert made["one utilization sample"].right == pytest.approx(100 * summary.utilization["compute"].value)
    assert made["A, then B"].right == 1.0


def test_without_sync_only_the_time_inside_submit_is_measured():
    trace = of_pipeline()
    steps = sorted(set(trace["step"].tolist()) - {-1})[10:]
    chosen = np.isin(trace["step"], steps) & (trace["kind"] == 0)
    inside = int((trace["queued_ns"] - trace["submit_ns"])[chosen].sum())
    made = found(trace)["no sync"]
    assert made.wrong == pytest.approx(32 * len(steps) * NS_PER_S / inside)
    assert made.factor > 50, "a submit takes a nanosecond here, a step 900"


def slow_at_first(device) -> None:
    for step in range(40):
        device.wait([device.submit(op("train", "compute", 10_000 if step < 8 else 1000, step, items=4))])


def test_the_warm_up_makes_it_slower_than_it_is():
    made = found(run(slow_at_first), 8)["warm-up included"]
    assert made.factor == pytest.approx((40 / (8 * 10_000 + 32 * 1000)) / (1 / 1000), rel=0.01)
    assert found(run(slow_at_first), 0)["warm-up included"].reason == "no step was excluded as warm-up"


def test_a_server_that_freezes_for_a_second_is_seen_from_when_requests_were_due_and_not_from_when_they_were_sent():
    service = np.full(1000, 4 * NS_PER_MS, np.int64)  # 200 a second at a load of 0.8
    service[500] = NS_PER_S
    latencies = _latencies_ns(service, LOAD)
    assert latencies.max() == pytest.approx(NS_PER_S, rel=0.01)
    assert np.quantile(latencies, 0.99) > 0.9 * NS_PER_S
    assert np.quantile(service, 0.99) == 4 * NS_PER_MS, "one slow request of a thousand: coordinated omission"


def test_slow_steps_that_lie_together_vanish_in_a_mean_of_percentiles():
    def program(device) -> None:
        for step in range(210):
            device.wait([device.submit(op("train", "compute", 9000 if 100 <= step < 118 else 1000, step, items=1))])

    made = found(run(program))["mean of percentiles"]
    assert made.right == pytest.approx(9000 / NS_PER_MS, rel=0.2)
    assert made.wrong < 0.5 * made.right


def test_one_sample_says_nothing_or_everything():
    made = found(of_pipeline(prefetch=0))["one utilization sample"]
    assert made.wrong in (0.0, 100.0)
    assert 0 < made.right < 100


def test_two_halves_of_a_run_that_gets_slower_look_like_two_settings():
    def program(device) -> None:
        for step in range(110):
            device.wait([device.submit(op("train", "compute", 1000 if step < 60 else 2000, step, items=1))])

    assert found(run(program))["A, then B"].wrong == pytest.approx(0.5, rel=0.02)


def test_what_a_run_is_too_short_for_is_absent_with_the_reason():
    made = found(of_pipeline(steps=30))
    assert (made["closed loop"].wrong, made["closed loop"].reason) == (None, "p99 needs 100 steps in the steady window; there are 20")
    assert made["mean of percentiles"].wrong is None and made["failed work counted"].reason == "no op failed"
    assert made["closed loop"].factor is None
