"""One sentence says what holds a run back."""

import pytest

from labkit.device.simulated import SimulatedDevice
from labkit.metrics import summarize
from labkit.trace import Trace
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import machine, op, pipeline, run


def said_of(trace: Trace, warmup_steps: int = 0) -> str:
    return summarize(trace, warmup_steps=warmup_steps).bottleneck


@pytest.mark.parametrize(
    ("prefetch", "workers", "decode", "sentence"),
    [
        (0, 1, 1000, "nothing overlaps: each lane waits for the one before it (busiest: workers, 50 %)."),
        (2, 1, 400, "compute is the bottleneck: busy 100 % of the time; the workers wait for it."),
        (2, 1, 1500, "loading is the bottleneck: compute waited 40 % of the time for 'decode'."),
        (2, 1, 1800, "loading is the bottleneck: compute waited 50 % of the time for 'decode'."),
        (4, 2, 1500, "compute is the bottleneck: busy 100 % of the time; the workers wait for it."),
        (1, 8, 9000, "loading is the bottleneck, yet the workers are busy 33 % of their time: too little is in flight to employ them all."),
    ],
)
def test_a_pipeline_names_its_slowest_stage(prefetch: int, workers: int, decode: int, sentence: str) -> None:
    trace = run(lambda device: pipeline(device, 60, prefetch, decode=decode), {"workers": workers})
    assert said_of(trace, 10) == sentence


def test_a_slow_link_is_named_for_what_it_does() -> None:
    trace = run(lambda device: pipeline(device, 60, prefetch=2, copy=2000))
    assert (
        said_of(trace, 10)
        == "copying to the device is the bottleneck: compute waited 55 % of the time for 'copy'."
    )


def loading_inline(device: SimulatedDevice) -> None:
    for step in range(40):
        device.submit(op("decode", "host", 900, step))
        device.wait([device.submit(op("update", "compute", 100, step, items=1))])


def test_loading_on_the_host_makes_its_program_the_bottleneck() -> None:
    assert (
        said_of(run(loading_inline), 5)
        == "the host program is the bottleneck: busy 90 % of the time; compute waits for it."
    )


def serving(device: SimulatedDevice) -> None:
    for request in range(30):
        device.wait([], until=request * 1000)
        device.wait([device.submit(op("infer", "compute", 300, request, items=1))])


def test_a_server_that_waits_for_requests_is_not_saturated() -> None:
    assert said_of(run(serving), 5) == (
        "no lane is saturated: compute, the busiest, is busy 30 % of the time; "
        "otherwise mostly waiting for host, itself waiting for a set time (70 %)."
    )


def test_a_single_busy_lane_has_nobody_waiting_for_it() -> None:
    def program(device: SimulatedDevice) -> None:
        for step in range(30):
            device.wait([device.submit(op("update", "compute", 1000, step, items=1))])

    assert said_of(run(program)) == "compute is the bottleneck: busy 100 % of the time."


def test_a_run_in_which_nothing_ran_says_so() -> None:
    assert said_of(recorded()) == "nothing ran."
    inline = recorded(row(0, "crop", "host", 0, 1000))
    assert said_of(inline) == "the host program is the bottleneck: nothing else ran."


def test_slow_dispatch_is_named_where_no_lane_is_saturated() -> None:
    trace = run(lambda device: pipeline(device, 60, 2, decode=100, copy=10), on=machine(dispatch_ns=700))
    assert said_of(trace, 10) == (
        "no lane is saturated: compute, the busiest, is busy 39 % of the time; "
        "otherwise mostly dispatch (61 %)."
    )
