"""All the numbers of one run, and the way into the record and back."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings

from labkit.metrics import OpStats, Summary, summarize
from labkit.trace import Recorder, Trace
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import Schedule, pipeline, run, schedules


@pytest.fixture(scope="module")
def summary() -> Summary:
    """40 steps of 32 items, loader bound: one step in 1000 ns."""
    return summarize(run(lambda device: pipeline(device, 40, prefetch=2)), warmup_steps=10)


def test_a_loader_bound_pipeline_in_numbers(summary: Summary) -> None:
    assert summary.window_ns == (11_001, 41_001)
    assert summary.throughput.value == 32 / 1000e-9
    assert {name: metric.value for name, metric in summary.step_interval.items()} == {
        "mean": 1000, "p50": 1000, "p95": 1000, "p99": None,
    }  # fmt: skip
    assert summary.batch_age["p50"].value == 1000 + 100 + 300 + 600
    assert summary.utilization["compute"].value == 0.9
    assert summary.utilization["h2d"].value == 0.1
    assert summary.waiting["compute"] == {"waiting for h2d: copy": 0.1}, (
        "a decode ends as a step does; then its copy runs"
    )
    assert summary.bound_efficiency.value == summary.utilization["workers"].value == 29 / 30
    assert summary.overlap.value == pytest.approx(29 / 30)
    assert (summary.steps, summary.dropped, summary.measured) == (40, 0, False)


def test_op_times_are_those_of_the_window(summary: Summary) -> None:
    assert summary.ops["decode"] == OpStats(29, 1000.0, 1000.0, "workers")
    assert summary.ops["update"] == OpStats(30, 600.0, 600.0, "compute")
    assert list(summary.ops) == ["copy", "decode", "forward", "update"]


def test_an_op_that_ran_on_two_lanes_names_both() -> None:
    trace = recorded(row(0, "crop", "workers", 0, 10), row(1, "crop", "compute", 10, 40))
    assert summarize(trace).ops["crop"] == OpStats(2, 20.0, 20.0, "workers, compute")


def test_it_goes_through_strict_json_and_comes_back_equal(summary: Summary) -> None:
    assert Summary.from_dict(json.loads(json.dumps(summary.as_dict(), allow_nan=False))) == summary


@settings(max_examples=60, deadline=None)
@given(schedules())
def test_any_run_can_be_summarised_and_recorded(schedule: Schedule) -> None:
    summary = summarize(schedule.trace(), warmup_steps=3)
    assert Summary.from_dict(json.loads(json.dumps(summary.as_dict(), allow_nan=False))) == summary
    metrics = [summary.throughput, summary.overlap, summary.bound_efficiency, *summary.step_interval.values()]
    metrics += [*summary.batch_age.values(), *summary.utilization.values()]
    assert all((metric.value is None) == (metric.reason is not None) for metric in metrics), (
        "absent is never without its reason"
    )


def test_a_run_that_left_nothing_has_absent_numbers_and_no_zeros() -> None:
    summary = summarize(recorded())
    assert summary.throughput.value is None
    assert summary.batch_age["p50"].value is None
    assert summary.overlap.value is None
    assert (summary.bottleneck, summary.ops, summary.steps) == ("nothing ran.", {}, 0)


def full(cap: int) -> Trace:
    recorder = Recorder(cap)
    recorder.open_unit("host", 0, 0)
    recorder.open_unit("compute", 0, 0)
    for place in range(200):
        start = 10 * place
        recorder.append(
            row(
                place,
                "update",
                "compute",
                start + 1,
                start + 9,
                submit_ns=start,
                queued_ns=start + 1,
                step=place,
                items=1,
            )
        )
    return recorder.finish(2000)


def test_a_trace_that_was_full_is_summarised_from_what_was_kept() -> None:
    summary = summarize(full(cap=100))
    assert (summary.dropped, summary.steps) == (200 - summary.steps, summary.throughput.n + 1)
    assert summary.throughput.value == 1 / 10e-9
    assert summary.utilization["compute"].value == 0.8


def test_metrics_need_numpy_and_nothing_heavier() -> None:
    heavy = ("torch", "plotly", "pandas", "scipy", "pyarrow")
    code = f"import labkit.metrics, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
