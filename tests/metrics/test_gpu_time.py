"""What a GPU as a whole did with its time, from launches and kernels alone; and the sentence that this allows, or forbids."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.metrics.bottleneck import cpu_bottleneck, gpu_bottleneck
from labkit.metrics.gpu_idle import LAUNCH_GAP_NS, GpuTime, device_span, gpu_time
from labkit.trace import Trace
from labkit.trace.kineto import read_kineto
from tests.metrics.test_gpu_idle import kernel, make  # noqa: F401  (a fixture)
from tests.trace.conftest import row

KINETO = Path(__file__).parents[2] / "datasets/traces/kineto"
LONG = 10 * LAUNCH_GAP_NS


def parts(time: GpuTime) -> tuple[int, ...]:
    return time.running_ns, time.starved_ns, time.launch_ns, time.waiting_ns, time.untold_ns


def test_an_empty_queue_is_the_host_s_and_from_launch_to_start_is_the_launch_s(make: Callable[..., Trace]):  # noqa: F811
    time = gpu_time(make(kernel(0, (0, 5), (10, 100)), kernel(1, (150, 160), (170, 200))), 0, 220)
    assert time is not None and parts(time) == (90 + 30, 5 + 60 + 20, 5 + 10, 0, 0)
    assert (time.queued_ns, time.launches) == ((5 + 10) / 2, 1.0)


def test_an_op_that_was_launched_long_ago_waits_and_the_host_is_not_to_blame(make: Callable[..., Trace]):  # noqa: F811
    time = gpu_time(make(kernel(0, (0, 1), (2, 10)), kernel(1, (2, 3), (10 + LONG, 20 + LONG))), 2, 20 + LONG)
    assert time is not None and parts(time) == (18, 0, 0, LONG, 0)


@pytest.mark.parametrize(("gap", "waiting"), [(LAUNCH_GAP_NS, 0), (LAUNCH_GAP_NS + 1, LAUNCH_GAP_NS + 1)])
def test_so_long_a_launch_takes_and_no_longer(make: Callable[..., Trace], gap: int, waiting: int):  # noqa: F811
    time = gpu_time(make(kernel(0, (0, 1), (2, 10)), kernel(1, (2, 3), (10 + gap, 20 + gap))), 2, 20 + gap)
    assert time is not None and (time.launch_ns, time.waiting_ns) == (gap - waiting, waiting)


def test_any_op_in_any_queue_keeps_it_from_being_empty(make: Callable[..., Trace]):  # noqa: F811
    late, next_one = kernel(2, (4, 5), (2 * LONG, 2 * LONG + 10), "net8"), kernel(3, (LONG, LONG + 1), (LONG + 2, LONG + 3))
    time = gpu_time(make(kernel(0, (0, 1), (2, 10)), late, next_one), 2, 2 * LONG + 10)
    assert time is not None and time.starved_ns == 0, "the op on net8 was launched at 5 and is still to begin"


def test_an_op_without_its_launch_leaves_the_time_before_it_untold(make: Callable[..., Trace]):  # noqa: F811
    time = gpu_time(make(kernel(0, (0, 1), (2, 10)), kernel(1, (500, 500), (500, 600))), 2, 600)
    assert time is not None and parts(time) == (108, 0, 0, 0, 490)
    assert time.launches == 0.5


def test_what_lies_outside_is_cut_and_the_parts_make_the_whole(make: Callable[..., Trace]):  # noqa: F811
    trace = make(kernel(0, (0, 5), (10, 100)), kernel(1, (150, 160), (170, 200)), kernel(2, (161, 165), (180, 260), "compute9"))
    for start, end in ((0, 300), (50, 190), (105, 140), (171, 172), (270, 280)):
        time = gpu_time(trace, start, end)
        assert time is not None and sum(parts(time)) == time.span_ns == end - start


def test_communication_that_nothing_runs_beside_is_told_apart(make: Callable[..., Trace]):  # noqa: F811
    time = gpu_time(make(kernel(0, (0, 1), (10, 110), "net8", "ncclKernel_AllReduce"), kernel(1, (2, 3), (50, 80))), 0, 110)
    assert time is not None and time.talking_ns == 70


def test_a_trace_without_a_gpu_has_no_such_time(make: Callable[..., Trace]):  # noqa: F811
    trace = make(row(0, "workers", 0, 10))
    assert gpu_time(trace, 0, 10) is None and device_span(trace) == (0, 0)


@pytest.mark.parametrize("path", sorted(KINETO.glob("*.json.gz")), ids=lambda path: path.name)
def test_real_traces_are_accounted_for_whole(path: Path):
    trace = read_kineto(path).trace
    time = gpu_time(trace, trace.start_ns, trace.end_ns)
    assert (time is None) == (path.name == "cpu_only.json.gz")
    assert time is None or sum(parts(time)) == time.span_ns


# ---- sentences --------------------------------------------------------------------------------------------

EVEN = GpuTime(1000, 400, 300, 100, 200, 0, 0, 5_000.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "host", "says"),
    [
        ({"running_ns": 850, "starved_ns": 150, "launch_ns": 0, "waiting_ns": 0}, None, "the GPU is the bottleneck: it runs something for 85 % of the time."),
        (
            {"running_ns": 850, "starved_ns": 150, "launch_ns": 0, "waiting_ns": 0, "queued_ns": 1.2e6}, None,
            "the GPU is the bottleneck: it runs something for 85 % of the time; kernels wait 1.2 ms in its queue (median).",
        ),
        (
            {"running_ns": 450, "starved_ns": 230, "launch_ns": 0, "waiting_ns": 320, "queued_ns": 11e6, "talking_ns": 300}, None,
            "the GPU's side is the bottleneck, not the host: kernels wait 11 ms in its queue (median); it runs something for 45 % of the time, most of it "
            "communication alone; for 32 % of the time none runs all the same, and the file does not say what they wait for.",
        ),
        (
            {"running_ns": 20, "starved_ns": 970, "launch_ns": 10, "waiting_ns": 0}, 0.96,
            "host-bound: for 97 % of the time the GPU is idle and its queue is empty; the host waits for the GPU for 4.0 % of the time.",
        ),
        (
            {"running_ns": 20, "starved_ns": 970, "launch_ns": 10, "waiting_ns": 0}, None,
            "host-bound: for 97 % of the time the GPU is idle and its queue is empty; whether the host works or waits then is not in the file.",
        ),
        (
            {"starved_ns": 0, "launch_ns": 0, "waiting_ns": 200, "untold_ns": 400, "launches": 0.2}, None,
            "what holds it back cannot be told: the launches of 80 % of the GPU's ops are not in the file; the GPU runs something for 40 % of the time.",
        ),
        ({"running_ns": 300, "starved_ns": 100, "launch_ns": 600, "waiting_ns": 0}, None, "launches are the bottleneck: for 60 % of the time the GPU is idle between a launch and its start."),
        ({}, None, "no single bottleneck: the GPU runs something for 40 % of the time, is idle with an empty queue for 30 % and with launched kernels waiting for 30 %."),
    ],
)  # fmt: skip
def test_the_sentence_says_what_is_known_and_no_more(changes: dict, host: float | None, says: str):
    assert gpu_bottleneck(replace(EVEN, **changes), host) == says


def test_a_short_queue_does_not_make_the_gpu_the_bottleneck():
    held_up = replace(EVEN, running_ns=450, starved_ns=230, launch_ns=0, waiting_ns=320, queued_ns=float(LAUNCH_GAP_NS))
    assert gpu_bottleneck(held_up).startswith("no single bottleneck")


def test_a_cpu_s_trace_says_what_its_ops_took():
    assert cpu_bottleneck({"aten::to": 0.08, "aten::mm": 0.2}) == (
        "no GPU in the file: ops take 28 % of the main thread's time, 'aten::mm' the most (20 %); the program around them, or what it waited for, has the rest."
    )
    assert cpu_bottleneck({}) == "no GPU in the file, and no op on its main thread."
