"""Profiler traces with anything wrong in them: a clear refusal, or a trace that everything can read, and words about what is missing."""

import gzip
import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import TraceError
from labkit.metrics import account, compile_replay, replay, summarize
from labkit.metrics.critical_path import critical_path
from labkit.metrics.gpu_idle import communication_overlap, gpu_idle
from labkit.trace import Trace
from labkit.trace.chrome import write_chrome
from labkit.trace.kineto import read_kineto
from labkit.trace.parquet import read_parquet, write_parquet
from tests.trace.test_kineto import REAL, event, imported, launched

ODD = [
    float("nan"), float("inf"), -float("inf"), 0, -1, 0.5, True, None, "", "x", "7", [], [1], {}, {"a": 1}, 10**17, 10**19, 10**30, 10**400, -1e17,
    1e300, "\ud800", "nccl", "Memcpy HtoD", 2**63, {"ph": "X"}, "X", "kernel", "cpu_op", "cuda_sync", "cudaStreamSynchronize", "ProfilerStep#3",
]  # fmt: skip
FIELDS = ("ts", "dur", "name", "pid", "tid", "args", "ph", "cat")
ARGS = ("stream", "correlation", "device", "bytes", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "cuda_sync_kind")
NOW_US = 1_700_000_000_000_000


def loaded(name: str) -> dict[str, Any]:
    with gzip.open(next(path for path in REAL if path.name.startswith(name))) as file:
        data = json.load(file)
    return {**data, "traceEvents": data["traceEvents"][-300:]}


BASES = [loaded(name) for name in ("a100_multi_stream", "mi250", "a100_alexnet", "cpu_only")]


def spoiled(base: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A copy with some fields wrong, missing or doubled."""
    events = [{**each, "args": dict(each.get("args") or {})} for each in base["traceEvents"]]
    for _ in range(chance.choice([1, 2, 5, 30])):
        one, kind = chance.choice(events), chance.random()
        if not isinstance(one, dict):
            continue
        if kind < 0.45:
            one[chance.choice(FIELDS)] = deepcopy(chance.choice(ODD))
        elif kind < 0.75 and isinstance(one.get("args"), dict):
            one["args"][chance.choice(ARGS)] = deepcopy(chance.choice(ODD))
        elif kind < 0.85:
            one.pop(chance.choice(FIELDS), None)
        elif kind < 0.93:
            events.append(dict(one))
        else:
            events[chance.randrange(len(events))] = deepcopy(chance.choice(ODD))
    return {**base, "traceEvents": events}


def everything_reads(trace: Trace, folder: Path) -> None:
    summarize(trace)
    for unit in account(trace):
        assert unit.busy_ns + sum(end - start for start, end, _ in unit.stalls) == unit.span_ns
    for stream in gpu_idle(trace):
        assert stream.busy_ns + sum(stream.idle_ns.values()) == stream.span_ns
    communication_overlap(trace)
    walk = critical_path(trace)
    assert sum(piece.ns for piece in walk.pieces) == walk.end_ns - walk.start_ns
    assert replay(compile_replay(trace), lags=True).makespan_ns == pytest.approx(trace.makespan_ns, rel=0.05)
    write_chrome(trace, folder / "chrome.json")
    write_parquet(trace, folder / "trace.parquet")
    assert len(read_parquet(folder / "trace.parquet")) == len(trace) > 0


@pytest.mark.parametrize("base", range(len(BASES)), ids=("multi_stream", "mi250", "alexnet", "cpu"))
def test_a_spoiled_trace_is_refused_by_the_reader_or_can_be_read_by_everything(base: int, tmp_path: Path):
    path, read = tmp_path / "spoiled.json", 0
    for seed in range(60):
        path.write_text(json.dumps(spoiled(BASES[base], random.Random(seed))))
        try:
            trace = read_kineto(path).trace
        except TraceError:
            continue
        everything_reads(trace, tmp_path)
        read += 1
    assert read > 30


@pytest.mark.parametrize("at", [1, 1000, 3000])
def test_a_text_that_is_cut_off_anywhere_is_refused(tmp_path: Path, at: int):
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(BASES[0])[:-at])
    with pytest.raises(TraceError, match="not JSON, or cut off"):
        read_kineto(path)


def test_an_event_at_time_0_amid_others_does_not_make_the_trace_half_a_century_long(tmp_path: Path):
    lost = event("lost", "kernel", 0, 5, 7, stream=7, device=0)
    later = [launched("work", n, (NOW_US + 100 * n, NOW_US + 100 * n + 5), (NOW_US + 100 * n + 10, NOW_US + 100 * n + 60)) for n in range(3)]
    made = imported(tmp_path, lost, *(each for pair in later for each in pair))
    assert made.trace.makespan_ns == 260_000
    assert "1 events with a time that is days from the others, dropped" in made.notes


def test_a_duration_of_more_than_a_week_and_sizes_that_no_column_holds_are_dropped(tmp_path: Path):
    endless = event("endless", "kernel", 5, 10**15, 7, stream=7, device=0)
    huge = event("Memcpy HtoD", "gpu_memcpy", 10, 5, 7, stream=7, device=0, bytes=10**30)
    made = imported(tmp_path, endless, huge)
    assert [made.trace.name_of(row) for row in range(len(made.trace))] == ["Memcpy HtoD"]
    assert made.trace["bytes"].tolist() == [0]
    assert "1 events with a duration that is none, dropped" in made.notes
    assert "1 events with an argument that is neither a whole number nor text, read without it" in made.notes


@pytest.mark.parametrize("value", [[1], {"a": 1}, 1.5, None, True])
def test_a_correlation_or_stream_that_is_no_number_is_read_without_it(tmp_path: Path, value: Any):
    kernel = event("odd", "kernel", 20, 5, 7, correlation=value, stream=value)
    made = imported(tmp_path, *launched("good", 1, (0, 5), (10, 15)), kernel)
    assert sorted(made.trace.name_of(row) for row in range(2)) == ["good", "odd"]
    assert "1 events with an argument that is neither a whole number nor text, read without it" in made.notes
    everything_reads(made.trace, tmp_path)


def test_times_are_exact_to_the_nanosecond_however_large_they_are(tmp_path: Path):
    late = 4_203_669_603_454  # µs of a machine's uptime, as ROCm writes them
    kernel = event("k", "kernel", late + 0.206, 22.441, 7, stream=7, device=0)
    trace = imported(tmp_path, event("c", "kernel", late, 0.001, 7, stream=7, device=0), kernel).trace
    assert (trace["start_ns"].tolist(), trace["end_ns"].tolist()) == ([0, 206], [1, 22_647])


@pytest.mark.parametrize("form", ["plain", "escaped", "with a mark at its begin"])
def test_names_that_are_not_ascii_are_read_as_they_were_written(tmp_path: Path, form: str):
    text = json.dumps({"traceEvents": launched("größe 🚀", 1, (0, 5), (10, 20))}, ensure_ascii=form == "escaped")
    path = tmp_path / "foreign.json"
    path.write_bytes((b"\xef\xbb\xbf" if form.startswith("with") else b"") + text.encode())
    assert read_kineto(path).trace.name_of(0) == "größe 🚀"


def test_half_a_character_in_a_name_does_not_prevent_saving_it(tmp_path: Path):
    path = tmp_path / "half.json"
    path.write_text(json.dumps({"traceEvents": launched("half \ud800", 1, (0, 5), (10, 20))}))
    everything_reads(read_kineto(path).trace, tmp_path)


def test_what_was_dropped_is_kept_with_the_trace(tmp_path: Path):
    made = imported(tmp_path, *launched("good", 1, (0, 5), (10, 20)), event("bad", "kernel", 5, -1))
    assert made.trace.meta["notes"] == list(made.notes)
    assert made.notes[-1] == "1 events with a duration that is none, dropped"


def test_a_file_with_launches_and_no_synchronisation_says_that_the_hosts_waits_are_unknown():
    def says(name: str) -> bool:
        notes = read_kineto(next(path for path in REAL if path.name.startswith(name))).notes
        return any("no synchronisation in the file" in note for note in notes)

    assert [says(name) for name in ("nccl_rank0", "nccl_rank1", "a100_alexnet", "mi250", "cpu_only")] == [True, True, False, False, False]
