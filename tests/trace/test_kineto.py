"""Traces of PyTorch's profiler: real ones from an A100, an MI250, two NCCL ranks and a CPU, and small ones with a known answer."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit.errors import TraceError
from labkit.metrics import account, compile_replay, replay, summarize
from labkit.metrics.critical_path import critical_path
from labkit.metrics.unit_slices import slices_by_unit
from labkit.trace import KIND_OP, KIND_WAIT
from labkit.trace.chrome import chrome_events
from labkit.trace.kineto import Imported, read_kineto
from labkit.trace.kineto.rows import short
from labkit.units import NS_PER_US

REAL = sorted((Path(__file__).parents[2] / "datasets/traces/kineto").glob("*.json.gz"))
each_real = pytest.mark.parametrize("path", REAL, ids=lambda path: path.name.partition(".")[0])


def event(name: str, category: str, ts: Any, dur: Any, tid: Any = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launched(name: str, number: int, launch: tuple[int, int], ran: tuple[int, int], stream: int = 7) -> list[dict[str, Any]]:
    """A kernel and its launch, each as (begin, end) in µs."""
    return [
        event("cudaLaunchKernel", "cuda_runtime", launch[0], launch[1] - launch[0], correlation=number),
        event(name, "kernel", ran[0], ran[1] - ran[0], stream, correlation=number, stream=stream, device=0),
    ]


def imported(tmp_path: Path, *events: Any, **more: Any) -> Imported:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": list(events), **more}))
    return read_kineto(path)


# ---- real ones --------------------------------------------------------------------------------------------


def test_all_six_are_there():
    assert len(REAL) == 6


@each_real
def test_everything_that_reads_a_trace_reads_it(path: Path):
    trace = read_kineto(path).trace
    summary = summarize(trace)
    for unit in account(trace):
        assert unit.busy_ns + sum(end - start for start, end, _ in unit.stalls) == unit.span_ns
    assert summary.bottleneck
    walk = critical_path(trace)
    assert sum(piece.ns for piece in walk.pieces) == walk.end_ns - walk.start_ns
    assert json.loads(json.dumps(chrome_events(trace), allow_nan=False))


@each_real
def test_its_replay_repeats_its_span_and_nothing_starts_before_what_it_depends_on(path: Path):
    trace = read_kineto(path).trace
    program = compile_replay(trace)
    assert replay(program, lags=True).makespan_ns == pytest.approx(trace.makespan_ns, rel=0.001)
    again = replay(program)
    assert again.makespan_ns == pytest.approx(trace.makespan_ns, rel=0.05)
    for row in np.flatnonzero((trace["kind"] == KIND_OP) & (again.start_ns >= 0)).tolist():
        assert all(again.end_ns[dep] <= again.start_ns[row] for dep in trace.deps(row).tolist())


@each_real
def test_the_busy_time_of_each_stream_is_that_of_the_file(path: Path):
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    streams: dict[Any, int] = {}
    for each in events:
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            streams[each["args"]["stream"]] = streams.get(each["args"]["stream"], 0) + round(each["dur"] * NS_PER_US)
    trace = read_kineto(path).trace
    for stream, busy_ns in streams.items():
        lane = next(f"{role}{stream}" for role in ("compute", "net", "h2d", "d2h") if f"{role}{stream}" in trace.lanes)
        rows = trace.rows_on(lane)
        assert int((trace["end_ns"][rows] - trace["start_ns"][rows]).sum()) == pytest.approx(busy_ns, rel=0.01)


def test_an_a100_waits_of_the_host_and_streams_are_seen():
    trace = read_kineto(next(path for path in REAL if "alexnet" in path.name)).trace
    assert trace.meta["device_label"] == "NVIDIA A100-PG509-200 (imported trace)"
    assert {"compute7", "compute20", "host"} == set(trace.lanes)
    waits = np.flatnonzero(trace["kind"] == KIND_WAIT)
    assert len(waits) > 10
    assert all(trace.deps(row).tolist() == [trace["woke_by"][row]] for row in waits.tolist())


def test_two_steps_of_training_with_nccl_have_a_rate_and_a_lane_for_communication():
    trace = read_kineto(next(path for path in REAL if path.name.startswith("nccl_rank1"))).trace
    assert {"net84", "net203", "h2d25", "compute7", "compute23"} < set(trace.lanes)
    assert summarize(trace).steps == 2
    assert trace.meta["rank"] == 1


def test_a_cpu_alone_is_a_host_that_runs_its_outermost_ops():
    made = read_kineto(next(path for path in REAL if path.name.startswith("cpu_only")))
    assert made.trace.lanes == ("host",)
    assert made.notes == ("1,451 ops inside another op: counted as part of it",)
    assert summarize(made.trace).bottleneck.startswith("the host program is the bottleneck")


# ---- small ones -------------------------------------------------------------------------------------------


def test_a_kernel_is_submitted_by_its_launch_and_a_sync_waits_for_it(tmp_path: Path):
    trace = imported(
        tmp_path,
        *launched("void first<int>(float*)", 1, (100, 110), (120, 220)),
        event("cudaStreamSynchronize", "cuda_runtime", 130, 95, correlation=2),
        event("Stream Sync", "cuda_sync", 130, 90, correlation=2, cuda_sync_kind="Stream Sync", stream=7),
        deviceProperties=[{"id": 0, "name": "GPU of a test"}],
    ).trace
    assert [trace.name_of(row) for row in range(2)] == ["first", "wait"]
    assert [int(trace[column][0]) for column in ("submit_ns", "queued_ns", "start_ns", "end_ns")] == [0, 10_000, 20_000, 120_000]
    assert (int(trace["start_ns"][1]), int(trace["end_ns"][1]), trace.deps(1).tolist()) == (30_000, 125_000, [0])
    assert trace.meta["device_label"] == "GPU of a test (imported trace)"


def test_a_stream_that_waits_for_an_event_depends_on_what_was_before_it(tmp_path: Path):
    trace = imported(
        tmp_path,
        *launched("before", 1, (0, 5), (10, 60), stream=7),
        event("cudaEventRecord", "cuda_runtime", 6, 1, correlation=2),
        event("cudaStreamWaitEvent", "cuda_runtime", 8, 1, correlation=3),
        event(
            "Stream Wait Event", "cuda_sync", 8, 1, correlation=3, cuda_sync_kind="Stream Wait Event", stream=20,
            wait_on_stream=7, wait_on_cuda_event_record_corr_id=2,
        ),
        *launched("after", 4, (12, 15), (61, 80), stream=20),
    ).trace  # fmt: skip
    assert [trace.name_of(row) for row in range(2)] == ["before", "after"]
    assert trace.deps(1).tolist() == [0]
    slower = replay(compile_replay(trace), scale={"before": 2.0})
    assert slower.start_ns[1] == slower.end_ns[0] == 105_000


def test_steps_of_the_profiler_are_steps_and_their_last_op_completes_them(tmp_path: Path):
    events = [event(f"ProfilerStep#{step}", "user_annotation", 1000 * step, 900) for step in range(5, 9)]
    for step in range(5, 9):
        events += launched("work", step, (1000 * step + 10, 1000 * step + 20), (1000 * step + 30, 1000 * step + 500))
        events += launched("last", 100 + step, (1000 * step + 25, 1000 * step + 35), (1000 * step + 500, 1000 * step + 800))
    trace = imported(tmp_path, *events).trace
    assert trace["step"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert trace["items"].tolist() == [0, 1] * 4
    assert summarize(trace).throughput.value == pytest.approx(1000)


def test_what_is_launched_between_two_steps_belongs_to_neither(tmp_path: Path):
    steps = [event(f"ProfilerStep#{step}", "user_annotation", 1000 * step, 400) for step in range(2)]
    launches = [launched(f"at {at}", at, (at, at + 5), (at + 10, at + 20)) for at in (100, 600, 1100, 1500)]
    trace = imported(tmp_path, *steps, *(each for pair in launches for each in pair)).trace
    assert {trace.name_of(row): int(trace["step"][row]) for row in range(4)} == {"at 100": 0, "at 600": -1, "at 1100": 1, "at 1500": -1}
    assert trace["items"].tolist() == [1, 0, 1, 0]


def test_kernels_of_one_stream_that_overlap_lie_on_units_of_their_own_but_not_by_rounding(tmp_path: Path):
    made = imported(
        tmp_path, *launched("a", 1, (0, 1), (10, 100)), *launched("b", 2, (2, 3), (99.5, 150)), *launched("c", 3, (4, 5), (110, 140))
    )
    trace = made.trace
    assert [(unit.span.lane, unit.span.unit, len(unit.rows)) for unit in slices_by_unit(trace) if unit.span.lane != "host"] == [
        ("compute7", 0, 2), ("compute7", 1, 1),
    ]  # fmt: skip
    assert "1 ops that overlap another of their stream: on a unit of their own" in made.notes


def test_copies_and_communication_have_lanes_of_their_own_role(tmp_path: Path):
    trace = imported(
        tmp_path,
        event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 0, 5, 20, stream=20, device=0, correlation=1, bytes=4096),
        event("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", 0, 5, 21, stream=21, device=0, correlation=2, bytes=64),
        event("ncclKernel_AllReduce", "kernel", 0, 5, 22, stream=22, device=0, correlation=3),
    ).trace
    assert set(trace.lanes) == {"host", "h2d20", "d2h21", "net22"}
    assert sorted(trace["bytes"].tolist()) == [0, 64, 4096]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("void at::native::(anonymous namespace)::distribution<float, 4>(int, at::X)", "at::native::distribution"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("Memcpy HtoD (Host -> Device)", "Memcpy HtoD (Host -> Device)"),
        ("x" * 200, "x" * 59 + "…"),
    ],
)
def test_a_kernels_name_is_short(name: str, told: str):
    assert short(name) == told


# ---- broken ones ------------------------------------------------------------------------------------------


def test_what_cannot_be_understood_is_dropped_and_told_and_the_rest_is_read(tmp_path: Path):
    path = tmp_path / "odd.json"
    good = json.dumps(launched("good", 1, (0, 5), (10, 20)))[1:-1]
    odd = [
        '{"ph": "X", "cat": "kernel", "name": "nan", "ts": NaN, "dur": 1}',
        '{"ph": "X", "cat": "kernel", "name": "endless", "ts": 1, "dur": Infinity}',
        '{"ph": "X", "cat": "kernel", "name": "backwards", "ts": 1, "dur": -5}',
        '{"ph": "X", "cat": "kernel", "name": "text", "ts": "soon", "dur": 1}',
        '{"ph": "X", "cat": "kernel"}',
        '{"ph": "M", "name": "process_name", "args": null}',
        '{"ph": "X", "cat": "kernel", "name": null, "ts": 30, "dur": 1, "args": [1], "tid": {"a": 1}}',
        "17", "null", '{"no": "phase"}',
    ]  # fmt: skip
    path.write_text('{"traceEvents": [' + ", ".join([good, *odd]) + "]}")
    made = read_kineto(path)
    assert [made.trace.name_of(row) for row in range(len(made.trace))] == ["good", "None"]
    assert "3 events with a time that is none, dropped" in made.notes
    assert "2 events with a duration that is none, dropped" in made.notes
    assert "3 events with not an event, dropped" in made.notes
    summarize(made.trace)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON, or cut off"),
        (b"{", "is not JSON, or cut off"),
        (b"[" * 100_000, "is not JSON, or cut off"),
        (b"5", "has no list of traceEvents"),
        (b"{}", "has no list of traceEvents"),
        (b'{"traceEvents": {}}', "has no list of traceEvents"),
        (b'{"traceEvents": []}', "has no op, kernel or runtime call in it (0 entries)"),
        (b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}', "has no op, kernel or runtime call in it (1 entries)"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": NaN}]}', "1 with a time that is none"),
        (b'{"traceEvents": [{"ph": "X", "cat": "cuda_runtime", "ts": 1, "dur": 1}]}', "no kernel and no op in it"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-12], "broken or cut off gzip"),
        (b"\x1f\x8bnot gzip at all", "broken or cut off gzip"),
        (b"\xff\xfe\x00binary", "is not JSON, or cut off"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(tmp_path: Path, content: bytes, says: str):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as refusal:
        read_kineto(path)
    assert says in str(refusal.value)


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path):
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(TraceError, match="cannot be read"):
            read_kineto(path)


def test_launches_that_are_missing_or_named_twice_are_told_and_the_kernels_stay(tmp_path: Path):
    lonely = event("lonely", "kernel", 40, 10, 7, correlation=9, stream=7, device=0)
    made = imported(tmp_path, *launched("one", 1, (0, 5), (10, 20)), *launched("two", 1, (6, 8), (22, 30)), lonely)
    assert [made.trace.name_of(row) for row in range(3)] == ["one", "two", "lonely"]
    assert "1 ops whose launch is not in the file: taken to be launched when they began" in made.notes
    compile_replay(made.trace)
