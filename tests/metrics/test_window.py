"""The steady window, and the throughput and latencies that are read inside it."""

import numpy as np
import pytest

from labkit.metrics import (
    batch_age,
    batch_ages_ns,
    steady_window,
    step_interval,
    step_intervals_ns,
    throughput,
)
from labkit.schedule import Status
from tests.metrics.recorded import completing, recorded, row
from tests.metrics.virtual_runs import pipeline, run


def test_without_warm_up_the_window_opens_at_the_first_completion() -> None:
    window = steady_window(completing([100, 150, 200, 300]))
    assert (window.start_ns, window.end_ns, window.wall_ns) == (100, 300, 200)
    assert window.rows.tolist() == [1, 2, 3]


def test_with_warm_up_it_opens_at_the_last_completion_of_a_warm_up_step() -> None:
    window = steady_window(completing([100, 150, 200, 300]), warmup_steps=2)
    assert (window.start_ns, window.end_ns) == (150, 300)
    assert window.rows.tolist() == [2, 3]


def test_warm_up_goes_by_the_number_of_the_step_not_by_the_order_of_completion() -> None:
    trace = recorded(
        row(0, "update", "compute", 0, 50, step=1, items=1),
        row(1, "update", "compute", 50, 90, step=0, items=1),
        row(2, "update", "compute", 90, 130, step=2, items=1),
    )
    window = steady_window(trace, warmup_steps=1)
    assert (window.start_ns, window.rows.tolist()) == (90, [2]), "step 1 completed before the warm-up had"


def test_failed_ops_and_ops_without_items_complete_nothing() -> None:
    trace = recorded(
        row(0, "update", "compute", 0, 10, items=1),
        row(1, "update", "compute", 10, 20, items=1, status=Status.FAILED),
        row(2, "log", "compute", 20, 30),
        row(3, "update", "compute", 30, 40, items=1),
    )
    assert steady_window(trace).rows.tolist() == [3]


@pytest.mark.parametrize(
    ("ends", "warmup", "reason"),
    [
        ([], 0, "there are 0 in all"),
        ([100], 0, "there are 1 in all"),
        ([100, 200, 300], 3, "none of the 3 completions lies after the warm-up: run more steps"),
    ],
)
def test_a_window_without_a_completion_inside_is_the_whole_run_and_has_no_throughput(
    ends: list[int], warmup: int, reason: str
) -> None:
    trace = completing(ends)
    window = steady_window(trace, warmup)
    assert not window.steady
    assert (window.start_ns, window.end_ns) == (0, trace.end_ns)
    metric = throughput(trace, window)
    assert (metric.value, metric.n) == (None, 0)
    assert reason in metric.reason
    assert (
        step_interval(trace, window)["mean"].reason == "no step interval: nothing completed after the warm-up"
    )
    assert batch_age(trace, window)["p50"].value is None


def test_throughput_is_the_items_completed_inside_over_the_length_of_the_window() -> None:
    trace = completing([1000, 2000, 3000, 5000], items=32)
    metric = throughput(trace, steady_window(trace))
    assert metric.value == 3 * 32 / 4000e-9
    assert (metric.n, metric.unit, metric.better) == (3, "items/s", "higher")


def test_step_intervals_begin_at_the_completion_that_opened_the_window() -> None:
    trace = completing([100, 150, 250, 400])
    window = steady_window(trace)
    assert step_intervals_ns(trace, window).tolist() == [50, 100, 150]
    metrics = step_interval(trace, window)
    assert {name: metric.value for name, metric in metrics.items()} == {
        "mean": 100,
        "p50": 100,
        "p95": None,
        "p99": None,
    }
    assert metrics["p95"].reason == "p95 needs at least 20 samples; there are 3"


def test_batch_age_runs_from_the_first_start_of_the_step_to_the_end_of_its_completion() -> None:
    trace = run(lambda device: pipeline(device, 3, prefetch=0))
    ages = batch_ages_ns(trace, steady_window(trace))
    assert ages.tolist() == [1000 + 100 + 300 + 600] * 2


def test_pipelining_shortens_the_step_interval_and_lengthens_the_batch_age() -> None:
    traces = [run(lambda device, depth=depth: pipeline(device, 40, depth, decode=500)) for depth in (0, 4)]
    windows = [steady_window(trace, 8) for trace in traces]
    pairs = list(zip(traces, windows, strict=True))
    assert [step_interval(*pair)["p50"].value for pair in pairs] == [1501, 900]
    alone, ahead = (batch_age(*pair)["p50"].value for pair in pairs)
    assert alone == 500 + 100 + 300 + 600
    assert ahead > 3 * alone


def test_a_completion_that_belongs_to_no_step_has_no_age() -> None:
    trace = recorded(
        row(0, "request", "compute", 0, 10, items=1), row(1, "request", "compute", 10, 20, items=1)
    )
    window = steady_window(trace)
    assert throughput(trace, window).n == 1
    assert len(batch_ages_ns(trace, window)) == 0


def test_percentiles_of_the_step_interval_and_its_mean_speak_of_the_same_samples() -> None:
    trace = completing(np.cumsum(np.arange(1, 203)).tolist())
    metrics = step_interval(trace, steady_window(trace, 2))
    assert {metric.n for metric in metrics.values()} == {200}
    assert metrics["p50"].value == metrics["mean"].value == 102.5
    assert metrics["p99"].value == pytest.approx(3 + 0.99 * 199)
