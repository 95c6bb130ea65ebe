"""An imported run says what it is, counts in steps, and claims nothing of the host that the file does not tell."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from labkit.metrics import account
from labkit.metrics.host_timeline import PROGRAM, PROGRAM_OR_WAIT
from labkit.metrics.summary import Summary
from labkit.runner.imported import contents, imported_run, origin
from labkit.runner.record import RunRecord
from labkit.trace import Trace

KINETO = Path(__file__).parents[2] / "datasets/traces/kineto"


def imported(name: str) -> tuple[RunRecord, Trace]:
    return imported_run(KINETO / f"{name}.json.gz", "20261201-imported-1", datetime(2026, 12, 1, tzinfo=UTC))


def summary_of(name: str) -> Summary:
    return Summary.from_dict(imported(name)[0].metrics)


def test_it_says_what_it_is_and_what_is_in_it():
    record, _ = imported("a100_alexnet")
    assert origin(record) == "imported: PyTorch profiler trace, NVIDIA A100-PG509-200, file a100_alexnet.json.gz"
    assert contents(record) == "98 ops on compute20, compute7 in 13 s, no ProfilerStep in it"
    assert contents(imported("nccl_rank0")[0]) == "1,204 ops on compute23, compute7, h2d25, net203, net84 in 1.22 s, 2 ProfilerSteps in it"


def test_a_run_of_the_lab_has_no_such_words_and_one_by_an_older_version_no_contents():
    record, _ = imported("a100_alexnet")
    own = RunRecord.from_dict(record.as_dict() | {"experiment": "pipeline"})
    assert (origin(own), contents(own)) == (None, None)
    assert contents(RunRecord.from_dict(record.as_dict() | {"results": {}})) is None


@pytest.mark.parametrize("name", ["nccl_rank0", "nccl_rank1"])
def test_without_any_synchronisation_the_host_is_not_said_to_be_busy(name: str):
    summary = summary_of(name)
    assert summary.utilization["host"].value is None
    assert summary.utilization["host"].reason == "the file does not say when the host waited: what it worked is not known"
    assert summary.bottleneck.startswith("the GPU's side is the bottleneck, not the host: kernels wait 1")


def test_with_synchronisations_the_host_s_share_stands():
    assert summary_of("mi250_minitoy_train").utilization["host"].value == pytest.approx(0.957, abs=0.001)
    assert summary_of("mi250_minitoy_train").bottleneck.startswith("host-bound: for 97 % of the time the GPU is idle and its queue is empty; the host waits")


@pytest.mark.parametrize(("name", "program"), [("nccl_rank0", PROGRAM_OR_WAIT), ("mi250_minitoy_train", PROGRAM)])
def test_what_lanes_wait_for_is_called_what_is_known_of_it(name: str, program: str):
    causes = {stall.cause.op for unit in account(imported(name)[1]) for stall in unit.stalls if stall.cause.kind == "host"}
    assert program in causes and len(causes & {PROGRAM, PROGRAM_OR_WAIT}) == 1


def test_rates_are_steps_and_without_two_of_them_the_span_is_told_instead():
    two, one = summary_of("nccl_rank0").throughput, summary_of("cpu_only").throughput
    assert (two.unit, two.n) == ("steps/s", 1)
    assert two.value == pytest.approx(1.606, abs=0.001)
    assert (one.value, one.unit, one.reason) == (None, "steps/s", "1 ProfilerStep in it, and it takes two: all of it takes 75.5 ms")
    assert (summary_of("cpu_only").step_interval, summary_of("cpu_only").batch_age) == ({}, {})


def test_a_run_opens_with_its_first_step_or_launch_and_not_with_the_file():
    trace = imported("a100_alexnet")[1]
    assert trace.start_ns == trace["submit_ns"].min() == 30_429_297_000, "thirty seconds of the file come before any launch"
    record, trace = imported("mi250_minitoy_train")
    assert trace.start_ns == 0 and record.results["steps"] == 1, "its step began before the first launch"
