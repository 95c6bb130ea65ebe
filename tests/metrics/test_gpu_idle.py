"""Idle reasons of a GPU's streams, and communication beside computation: small traces with known answers, and real ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.metrics.gpu_idle import LAUNCH_GAP_NS, all_idle_ns, communication_overlap, gpu_idle
from labkit.trace import Trace
from labkit.trace.kineto import read_kineto
from tests.trace.conftest import row

KINETO = Path(__file__).parents[2] / "datasets/traces/kineto"


@pytest.fixture
def make() -> Callable[..., Trace]:
    from labkit.trace import Recorder

    def trace_of(*rows) -> Trace:
        recorder = Recorder()
        for unit in dict.fromkeys([("host", 0), *((one.lane, one.unit) for one in rows)]):
            recorder.open_unit(*unit, 0)
        for one in rows:
            recorder.append(one)
        return recorder.finish(max(one.end_ns for one in rows) + 50)

    return trace_of


def kernel(op: int, called: tuple[int, int], ran: tuple[int, int], lane: str = "compute7", name: str = "k", **more):
    return row(op, lane, *ran, name=name, submit_ns=called[0], queued_ns=called[1], **more)


def test_a_gap_is_split_at_the_launch_and_what_follows_is_the_launch_itself(make):
    stream = gpu_idle(make(kernel(0, (0, 5), (10, 100)), kernel(1, (150, 160), (170, 200))))[0]
    assert (stream.lane, stream.ops, stream.span_ns, stream.busy_ns) == ("compute7", 2, 190, 120)
    assert stream.idle_ns == {"host-bound": 60, "device-bound": 0, "launch gap": 10, "unexplained": 0}


def test_waiting_for_an_op_of_another_stream_is_device_bound(make):
    first, other = kernel(0, (0, 1), (2, 10)), kernel(1, (2, 3), (4, 80), "net8")
    stream = gpu_idle(make(first, other, kernel(2, (4, 5), (85, 90), deps=(1,))))[0]
    assert stream.idle_ns == {"host-bound": 0, "device-bound": 70, "launch gap": 5, "unexplained": 0}


@pytest.mark.parametrize(("gap", "reason"), [(LAUNCH_GAP_NS, "launch gap"), (LAUNCH_GAP_NS + 1, "unexplained")])
def test_a_gap_too_long_for_a_launch_is_unexplained(make, gap: int, reason: str):
    stream = gpu_idle(make(kernel(0, (0, 1), (2, 10)), kernel(1, (2, 3), (10 + gap, 20 + gap))))[0]
    assert stream.idle_ns[reason] == gap == sum(stream.idle_ns.values())


def test_ops_that_overlap_on_two_units_are_busy_once_and_gaps_go_to_the_op_that_ends_them(make):
    rows = kernel(0, (0, 1), (10, 60)), kernel(1, (2, 3), (40, 90), unit=1), kernel(2, (100, 110), (120, 130), unit=1), kernel(3, (140, 141), (150, 160))
    stream = gpu_idle(make(*rows))[0]
    assert (stream.busy_ns, stream.span_ns) == (80 + 10 + 10, 150)
    assert stream.idle_ns == {"host-bound": 20 + 11, "device-bound": 0, "launch gap": 10 + 9, "unexplained": 0}


def test_a_short_op_within_a_long_one_does_not_end_the_busy_time(make):
    rows = kernel(0, (0, 1), (10, 100)), kernel(1, (2, 3), (20, 30), unit=1), kernel(2, (4, 5), (100, 120))
    stream = gpu_idle(make(*rows))[0]
    assert (stream.busy_ns, sum(stream.idle_ns.values())) == (110, 0)


def test_the_gpu_is_idle_where_no_stream_runs_anything_and_waits_are_no_work(make):
    rows = kernel(0, (0, 1), (10, 60)), kernel(1, (2, 3), (40, 90), "h2d8"), row(2, "host", 5, 190, kind=1, deps=(1,), woke_by=1), kernel(3, (140, 141), (190, 200))
    assert all_idle_ns(make(*rows)) == 100
    assert all_idle_ns(make(row(0, "workers", 0, 10))) is None


def test_lanes_of_the_host_and_its_workers_are_no_streams(make):
    assert gpu_idle(make(row(0, "workers", 0, 10), row(1, "host", 10, 20, submit_ns=10, queued_ns=10))) == ()


def test_communication_is_beside_computation_only_where_a_kernel_computes(make):
    both = communication_overlap(
        make(
            kernel(0, (0, 1), (10, 110), "net8", "ncclKernel_AllReduce"), kernel(1, (2, 3), (50, 80), "compute7", "gemm"),
            kernel(2, (4, 5), (70, 90), "compute9", "gemm"), kernel(3, (5, 6), (20, 40), "h2d10", "Memcpy HtoD (Pinned -> Device)"),
        )
    )  # fmt: skip
    assert (both.communication_ns, both.computation_ns, both.both_ns) == (100, 40, 40)
    assert both.share.value == 0.4


def test_without_communication_the_share_is_absent_with_its_reason(make):
    share = communication_overlap(make(kernel(0, (0, 1), (10, 20)))).share
    assert share.value is None
    assert "no kernel of nccl" in share.reason


@pytest.mark.parametrize(
    ("name", "lane", "busy_us", "idle_us"),
    [
        # HTA 0.5.0 on the same files, HTA_DISABLE_NS_ROUNDING=1, the last profiler step included
        ("a100_alexnet", "compute7", 65_133, 12_855_111), ("a100_alexnet", "compute20", 1_070, 12_011_721),
        ("a100_multi_stream", "compute24", 124, 15), ("mi250_minitoy_train", "compute0", 149.042, 8_762.84),
        ("nccl_rank0", "compute7", 202_918, 1_000_017), ("nccl_rank0", "net84", 290_059, 798_049),
        ("nccl_rank1", "h2d25", 12_117, 648_287), ("nccl_rank1", "net203", 104_907, 559_033),
    ],
)  # fmt: skip
def test_real_streams_are_as_busy_and_idle_as_holistic_trace_analysis_says(name: str, lane: str, busy_us: float, idle_us: float):
    stream = next(each for each in gpu_idle(read_kineto(KINETO / f"{name}.json.gz").trace) if each.lane == lane)
    assert stream.busy_ns / 1000 == pytest.approx(busy_us, rel=1e-6)
    assert sum(stream.idle_ns.values()) / 1000 == pytest.approx(idle_us, rel=1e-5)


@pytest.mark.parametrize(("name", "percent"), [("nccl_rank0", 14.95), ("nccl_rank1", 19.93)])
def test_real_communication_overlaps_as_holistic_trace_analysis_says(name: str, percent: float):
    share = communication_overlap(read_kineto(KINETO / f"{name}.json.gz").trace).share
    assert 100 * share.value == pytest.approx(percent, abs=0.005)
