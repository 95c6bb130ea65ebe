"""The Chrome export is strict JSON that viewers take: threads from 1, slices that nest, arrows whose ends exist."""

import json
from collections import defaultdict
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from labkit.device.cpu import CpuDevice
from labkit.schedule import Lane, Op, Status
from labkit.trace import Recorder, Trace
from labkit.trace.chrome import chrome_events, write_chrome


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def exported(trace: Trace, folder: Path) -> dict[str, Any]:
    """The file as a strict reader reads it."""
    write_chrome(trace, folder / "trace.json")
    return json.loads((folder / "trace.json").read_bytes().decode("utf-8"), parse_constant=refuse)


def of_phase(events: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == phase]


def ns(time_us: float) -> int:
    return round(time_us * 1000)


def check_events(events: list[dict[str, Any]]) -> None:
    """What every viewer relies on."""
    threads = {event["tid"] for event in of_phase(events, "M") if event["name"] == "thread_name"}
    assert 0 not in threads and (1 in threads or not threads)
    slices = of_phase(events, "X")
    assert {event["tid"] for event in events if event["name"] != "process_name"} <= threads
    assert all(event["ts"] >= 0 and event["dur"] >= 0 and event["pid"] == 1 for event in slices)
    check_nesting(slices)
    check_arrows(events, slices)


def check_nesting(slices: list[dict[str, Any]]) -> None:
    """Of one thread, a slice lies inside the one before it, or after its end."""
    by_thread: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in slices:
        by_thread[event["tid"]].append((ns(event["ts"]), -ns(event["ts"] + event["dur"])))
    for spans in by_thread.values():
        open_ends: list[int] = []
        for start, minus_end in sorted(spans):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or -minus_end <= open_ends[-1], "it reaches out of the slice that it began in"
            open_ends.append(-minus_end)


def check_arrows(events: list[dict[str, Any]], slices: list[dict[str, Any]]) -> None:
    """Each arrow has one tail, at the end of a slice, and one head, at the start of another on another thread."""
    ends = {(event["tid"], ns(event["ts"] + event["dur"])) for event in slices}
    starts = {(event["tid"], ns(event["ts"])) for event in slices}
    tails = {event["id"]: event for event in of_phase(events, "s")}
    heads = {event["id"]: event for event in of_phase(events, "f")}
    assert len(tails) == len(of_phase(events, "s")) and tails.keys() == heads.keys()
    for number, tail in tails.items():
        head = heads[number]
        assert (tail["tid"], ns(tail["ts"])) in ends and (head["tid"], ns(head["ts"])) in starts
        assert tail["tid"] != head["tid"] and tail["ts"] <= head["ts"]
        assert (tail["name"], tail["cat"], head["bp"]) == (head["name"], head["cat"], "e")


def test_a_small_trace_event_by_event(make_row, make_trace):
    trace = make_trace(
        make_row(0, "workers", 1500, 4000, name="load", step=3),
        make_row(1, "compute", 4000, 9001, name="train", step=3, deps=(0,)),
    )
    trace.meta["device_label"] = "simulated Test"
    assert chrome_events(trace) == [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "simulated Test"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "compute"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "host"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 3, "args": {"name": "workers"}},
        {"ph": "X", "name": "load", "cat": "op", "pid": 1, "tid": 3, "ts": 1.5, "dur": 2.5,
         "args": {"op": 0, "step": 3, "status": "ok"}},
        {"ph": "X", "name": "train", "cat": "op", "pid": 1, "tid": 1, "ts": 4.0, "dur": 5.001,
         "args": {"op": 1, "step": 3, "status": "ok"}},
        {"ph": "s", "cat": "dep", "name": "dep", "id": 1, "pid": 1, "tid": 3, "ts": 4.0},
        {"ph": "f", "cat": "dep", "name": "dep", "id": 1, "pid": 1, "tid": 1, "ts": 4.0, "bp": "e"},
    ]  # fmt: skip


def test_a_run_on_the_virtual_clock_is_exported_whole(tmp_path: Path, simulated_trace: Trace):
    whole = exported(simulated_trace, tmp_path)
    check_events(whole["traceEvents"])
    slices = of_phase(whole["traceEvents"], "X")
    assert len(slices) == int((simulated_trace["start_ns"] >= 0).sum())
    assert {event["name"] for event in slices} == {"load", "prepare", "train", "log", "wait"}
    assert {event["cat"] for event in slices if event["name"] == "wait"} == {"wait"}
    assert {event["args"]["status"] for event in slices} == {"ok", "failed"}
    assert whole["displayTimeUnit"] == "ms"
    assert whole["otherData"]["device"] == "simulated:test"


def test_a_thread_is_named_after_its_lane_and_from_the_second_unit_on_its_number(simulated_trace: Trace):
    named = [event for event in of_phase(chrome_events(simulated_trace), "M") if event["name"] == "thread_name"]
    assert [event["args"]["name"] for event in named] == ["compute", "host", "workers", "workers 1", "workers 2"]
    assert len({event["tid"] for event in named}) == 5


def test_an_arrow_crosses_lanes_and_none_stays_within_one(simulated_trace: Trace):
    events = chrome_events(simulated_trace)
    assert len(of_phase(events, "s")) == 5 + 5 + 1, "load to prepare and load to train, five steps each; train to log"


def test_ops_that_never_ran_and_waits_have_no_arrows(make_row, make_trace):
    trace = make_trace(
        make_row(0, "workers", 0, 10),
        make_row(1, "compute", -1, -1, status=Status.SKIPPED, deps=(0,)),
        make_row(2, "host", 5, 10, kind=1, name="wait", deps=(0, 1)),
        make_row(3, "d2h", 20, 30, deps=(1, 99)),
    )
    events = chrome_events(trace)
    assert of_phase(events, "s") == [] and len(of_phase(events, "X")) == 3


def test_a_toggle_is_an_instant_seen_by_all_threads(simulated_trace: Trace):
    (mark,) = of_phase(chrome_events(simulated_trace), "i")
    assert (mark["name"], mark["s"], mark["tid"]) == ("workers: 2 → 3", "g", 1)
    assert ns(mark["ts"]) == simulated_trace.marks[0].time_ns


def test_names_in_any_script_survive(tmp_path: Path, make_row, make_trace):
    trace = make_trace(make_row(0, name='décoder "解码" \\ \n'))
    assert of_phase(exported(trace, tmp_path)["traceEvents"], "X")[0]["name"] == 'décoder "解码" \\ \n'


def test_an_empty_trace_is_a_file_without_slices(tmp_path: Path):
    whole = exported(Recorder().finish(5), tmp_path)
    assert [event["name"] for event in whole["traceEvents"]] == ["process_name"]


def test_what_was_dropped_leaves_no_loose_arrow(tmp_path: Path, make_row, make_trace):
    rows = [make_row(op, "workers" if op % 2 else "compute", 10 * op, 10 * op + 10, deps=(op - 1, op - 3)) for op in range(60)]
    trace = make_trace(*rows, cap=11)
    assert trace.dropped == 49
    check_events(exported(trace, tmp_path)["traceEvents"])


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_run_on_threads_is_exported_whole(tmp_path: Path, cancelled: bool):
    device = CpuDevice(widths={"workers": 3})
    for step in range(12):
        load = device.submit(Op("load", Lane("workers"), lambda: sleep(0.001), step=step))
        train = device.submit(Op("train", Lane("compute"), lambda _: sleep(0.0005), step=step), load)
        if step % 4 == 3:
            device.submit(Op("log", Lane("host"), lambda _: None, step=step), train)
        if step == 6:
            device.resize("workers", 1)
        if step == 9 and cancelled:
            device.cancel()
    device.wait([train])
    device.close()
    check_events(exported(device.recorder.finish(device.now()), tmp_path)["traceEvents"])
