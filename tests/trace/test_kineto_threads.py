"""Host threads of a profiler's trace that run side by side: one program, in which no call begins before the one before it is left."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.metrics import compile_replay, replay
from labkit.trace import KIND_OP, KIND_WAIT, Trace
from labkit.trace.kineto.verbs import BESIDE, one_program
from labkit.trace.kineto.waits import Wait
from tests.trace.test_kineto import event, imported, launched

COLUMNS = ("kind", "submit_ns", "queued_ns", "start_ns", "end_ns")


def rows(trace: Trace) -> list[tuple[int, ...]]:
    """Kind and the four times in µs."""
    return [tuple(int(trace[name][row]) // (1 if name == "kind" else 1000) for name in COLUMNS) for row in range(len(trace))]


def replays_exactly(trace: Trace) -> bool:
    again = replay(compile_replay(trace), lags=True)
    return bool((again.end_ns == trace["end_ns"]).all() and (again.start_ns == trace["start_ns"]).all())


def sync(name: str, ts: int, dur: int, number: int, tid: int = 1):
    return event(name, "cuda_runtime", ts, dur, tid, correlation=number)


def test_a_wait_of_one_thread_begins_when_the_other_has_launched_its_last(tmp_path: Path):
    trace = imported(
        tmp_path,
        *launched("slow", 1, (0, 10), (20, 900)),
        sync("cudaDeviceSynchronize", 100, 900, 2),
        *launched("beside", 3, (500, 510), (520, 600), stream=8),
    ).trace
    assert rows(trace) == [(KIND_OP, 0, 10, 20, 900), (KIND_OP, 500, 510, 520, 600), (KIND_WAIT, 510, 510, 510, 1000)]
    assert trace["woke_by"].tolist() == [-1, -1, 0]
    assert replays_exactly(trace)


def test_a_launch_is_left_when_another_thread_begins_one(tmp_path: Path):
    trace = imported(tmp_path, *launched("a", 1, (0, 100), (110, 200)), *launched("b", 2, (40, 60), (70, 90), stream=8)).trace
    assert rows(trace) == [(KIND_OP, 0, 40, 110, 200), (KIND_OP, 40, 60, 70, 90)]
    assert replays_exactly(trace)


def test_a_wait_inside_a_longer_one_of_another_thread_comes_first(tmp_path: Path):
    made = imported(
        tmp_path,
        *launched("first", 1, (0, 5), (10, 180)),
        *launched("second", 2, (6, 9), (10, 950), stream=8),
        sync("cudaDeviceSynchronize", 100, 900, 3),
        sync("cudaDeviceSynchronize", 120, 80, 4),
    )
    assert [row for row in rows(made.trace) if row[0] == KIND_WAIT] == [(KIND_WAIT, 120, 120, 120, 200), (KIND_WAIT, 200, 200, 200, 1000)]
    assert made.notes == ()


def test_of_two_waits_that_end_together_one_is_told_and_the_other_counted(tmp_path: Path):
    made = imported(
        tmp_path, *launched("work", 1, (0, 5), (10, 200)),
        sync("cudaDeviceSynchronize", 100, 150, 2), sync("cudaDeviceSynchronize", 120, 130, 3),
    )  # fmt: skip
    assert made.trace["kind"].tolist() == [KIND_OP, KIND_WAIT]
    assert made.notes == (f"1 {BESIDE}",)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 90)), max_size=8),
)
def test_whatever_the_threads_call_no_call_begins_before_the_one_before_it_is_left(launches, syncs):
    notes: Counter[str] = Counter()
    waits = [Wait(start, start + length, 0) for start, length in syncs]
    verbs = one_program([(start, start + length) for start, length in launches], waits, notes)
    assert sorted(verb.place for verb in verbs if not verb.is_wait) == list(range(len(launches)))
    assert sum(verb.is_wait for verb in verbs) + notes[BESIDE] == len(waits)
    for verb, after in pairwise(verbs):
        assert verb.begun_ns <= verb.left_ns <= after.begun_ns
    for verb in verbs:
        if verb.is_wait:
            assert waits[verb.place].start_ns <= verb.begun_ns < verb.left_ns == waits[verb.place].end_ns
        else:
            assert verb.begun_ns == launches[verb.place][0]


def test_an_op_that_another_cpu_thread_began_amid_one_of_the_hosts_was_submitted_before_that(tmp_path: Path):
    trace = imported(
        tmp_path,
        event("aten::mm", "cpu_op", 0, 100), event("aten::add", "cpu_op", 110, 50), event("aten::inside", "cpu_op", 10, 5),
        event("aten::beside", "cpu_op", 30, 90, tid=2), event("aten::between", "cpu_op", 161, 20, tid=3), event("aten::relu", "cpu_op", 170, 10),
    ).trace  # fmt: skip
    told = {trace.name_of(row): (trace.lane_of(row), *rows(trace)[row][1:]) for row in range(len(trace))}
    assert told["aten::beside"] == ("workers1", 0, 0, 30, 120)
    assert told["aten::between"] == ("workers2", 161, 161, 161, 181)
    assert "aten::inside" not in told
    assert replays_exactly(trace)


@pytest.mark.parametrize("device", [0, 1])
def test_streams_of_two_devices_with_one_number_are_two(tmp_path: Path, device: int):
    kernels = [
        *launched("on 0", 1, (0, 5), (10, 300)),
        sync("cudaLaunchKernel", 6, 2, 2),
        event("on 1", "kernel", 20, 80, 7, correlation=2, stream=7, device=1),
        sync("cudaStreamSynchronize", 30, 300, 3),
        event("Stream Sync", "cuda_sync", 30, 300, correlation=3, cuda_sync_kind="Stream Sync", stream=7, device=device),
    ]
    trace = imported(tmp_path, *kernels).trace
    wait = int(np.flatnonzero(trace["kind"] == KIND_WAIT)[0])
    assert trace.name_of(int(trace["woke_by"][wait])) == f"on {device}"
    assert len({lane for lane in trace.lanes if lane != "host"}) == 2
