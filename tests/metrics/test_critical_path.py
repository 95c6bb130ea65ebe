"""The critical path covers the time before the last completion, exactly, and leads where the time went."""

from itertools import pairwise

import pytest
from hypothesis import given, settings

from labkit.metrics.critical_path import CriticalPath, critical_path
from labkit.metrics.window import steady_window
from labkit.trace import Trace
from tests.metrics.virtual_runs import Schedule, op, pipeline, run, schedules


def assert_tiles(path: CriticalPath) -> None:
    assert sum(piece.ns for piece in path.pieces) == path.end_ns - path.start_ns
    assert all(one.end_ns == two.start_ns for one, two in pairwise(path.pieces))
    assert all(piece.ns > 0 for piece in path.pieces)
    assert path.op_ns <= path.end_ns - path.start_ns


def of_pipeline(prefetch: int, **times: int) -> Trace:
    return run(lambda device: pipeline(device, 60, prefetch, **times), {"workers": 1})


@settings(max_examples=300, deadline=None)
@given(schedules())
def test_it_covers_all_of_the_time_of_any_simulated_run(schedule: Schedule):
    assert_tiles(critical_path(schedule.trace()))


@settings(max_examples=100, deadline=None)
@given(schedules(lags=False))
def test_without_lags_nothing_on_it_is_dispatch_but_a_nanosecond_of_a_verb(schedule: Schedule):
    path = critical_path(schedule.trace())
    assert_tiles(path)
    assert all(piece.sort != "wake-up" or piece.ns <= 1 for piece in path.pieces)


@pytest.mark.parametrize(("decode", "stage"), [(400, "compute: update"), (3000, "workers: decode")])
def test_of_a_pipeline_it_is_the_slowest_lane(decode: int, stage: str):
    trace = of_pipeline(2, decode=decode)
    path = critical_path(trace, 10)
    assert_tiles(path)
    assert next(iter(path.shares())) == stage
    lane = stage.partition(":")[0]
    assert sum(share for name, share in path.shares().items() if name.startswith(f"{lane}:")) > 0.99


def test_of_the_synchronous_program_it_is_every_stage():
    path = critical_path(of_pipeline(0), 10)
    shares = path.shares()
    assert_tiles(path)
    assert shares["workers: decode"] == pytest.approx(0.5, abs=0.01)
    assert shares["compute: update"] == pytest.approx(0.3, abs=0.01)
    assert shares["compute: forward"] == pytest.approx(0.15, abs=0.01)
    assert shares["h2d: copy"] == pytest.approx(0.05, abs=0.01)


def test_an_op_off_the_path_is_not_on_it():
    def program(device) -> None:
        for step in range(20):
            long = device.submit(op("long", "workers", 1000, step))
            device.submit(op("short", "h2d", 100, step))
            device.wait([device.submit(op("update", "compute", 50, step, items=1), long)])

    names = set(critical_path(run(program), 2).shares())
    assert {"workers: long", "compute: update"} <= names
    assert "h2d: short" not in names


def test_a_host_that_works_between_ops_is_on_it():
    def program(device) -> None:
        for step in range(20):
            device.submit(op("prepare", "host", 700, step))
            device.wait([device.submit(op("update", "compute", 300, step, items=1))])

    shares = critical_path(run(program), 2).shares()
    assert shares["host: prepare"] == pytest.approx(0.7, abs=0.01)
    assert shares["compute: update"] == pytest.approx(0.3, abs=0.01)


def test_a_wait_for_a_set_time_is_on_it():
    def program(device) -> None:
        for step in range(20):
            device.wait([], until=(step + 1) * 1000)
            device.wait([device.submit(op("infer", "compute", 300, step, items=1))])

    shares = critical_path(run(program), 2).shares()
    assert shares["waiting for a set time"] == pytest.approx(0.7, abs=0.01)


def test_it_ends_with_the_last_completion_of_the_steady_window():
    trace = of_pipeline(2)
    window = steady_window(trace, 10)
    path = critical_path(trace, 10)
    assert (path.start_ns, path.end_ns) == (window.start_ns, window.end_ns)
