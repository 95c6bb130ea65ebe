"""The account is made of whole columns: it must agree, stall by stall and cause by cause, with the plain one that looks at a gap at a time."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.metrics import account, chain, host_timeline
from labkit.trace import KIND_LAUNCH, KIND_WAIT, Recorder, Trace
from labkit.trace.kineto import read_kineto
from labkit.trace.trace import INT_COLUMNS
from tests.metrics.plain_stalls import plain_stalls
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import Schedule, machine, pipeline, random_schedule, run, schedules

KINETO = sorted((Path(__file__).parents[2] / "datasets/traces/kineto").glob("*.json.gz"))


def assert_agree(trace: Trace) -> None:
    accounts, plain = account(trace), plain_stalls(trace)
    for unit, stalls in zip(accounts, plain, strict=True):
        assert unit.stalls == stalls, (unit.lane, unit.unit)
        assert unit.busy_ns == unit.span_ns - sum(end - begin for begin, end, _ in stalls)
        middle_ns = unit.open_ns + unit.span_ns // 3, unit.open_ns + unit.span_ns // 2
        expected: dict = {}
        for begin, end, cause in stalls:
            if end > middle_ns[0] and begin < middle_ns[1]:
                expected[cause] = expected.get(cause, 0) + min(end, middle_ns[1]) - max(begin, middle_ns[0])
        assert unit.stalled_within(*middle_ns) == {cause: ns for cause, ns in expected.items() if ns}


def with_late_launches(trace: Trace, seed: int) -> Trace:
    """The same run, some of whose ops were launched late, amid the host's waits."""
    random, n = Random(seed), len(trace)
    recorder = Recorder(2 * n + 10)
    for place in range(n):
        numbers = {name: int(trace[name][place]) for name in INT_COLUMNS}
        recorder.append(_row(numbers, trace.name_of(place), trace.lane_of(place), tuple(trace.deps(place).tolist())))
    ids = trace["op"].tolist()
    for wait in np.flatnonzero((trace["kind"] == KIND_WAIT) & (trace["end_ns"] > trace["start_ns"])).tolist():
        at, end = int(trace["start_ns"][wait]), int(trace["end_ns"][wait])
        while random.random() < 0.6 and at < end:
            start = random.randint(at + 1, end)  # one that begins with the wait is told apart from it by nothing
            at = random.randint(start, end)
            ids.append(ids[-1] + 1)
            numbers = dict.fromkeys(INT_COLUMNS, 0) | {"op": ids[-1], "kind": KIND_LAUNCH, "step": -1, "woke_by": -1, "status": int(trace["status"][wait])}
            numbers |= {"submit_ns": start, "queued_ns": at, "start_ns": start, "end_ns": at}
            recorder.append(_row(numbers, "launch", "host", (random.choice(ids[:n]),)))
    return replace(recorder.finish(trace.end_ns), units=trace.units)


def _row(numbers: dict[str, int], name: str, lane: str, deps: tuple[int, ...]) -> tuple:
    first, rest = INT_COLUMNS[:2], INT_COLUMNS[2:]
    return (*(numbers[each] for each in first), name, lane, *(numbers[each] for each in rest if each != "rank"), deps)


@settings(max_examples=250, deadline=None)
@given(schedules(), st.integers(0, 100), st.sampled_from((0, 3, chain.FEW)))
def test_any_simulated_run_has_the_same_stalls(schedule: Schedule, seed: int, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "FEW", few)  # how many chains are climbed together must not matter
        trace = schedule.trace()
        assert_agree(trace)
        assert_agree(with_late_launches(trace, seed))


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_a_long_pipeline_has_the_same_stalls(prefetch: int) -> None:
    assert_agree(run(lambda device: pipeline(device, 700, prefetch, copy=170, update=411), {"workers": 3}, machine(dispatch_ns=9, wake_ns=31)))


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_an_imported_trace_has_the_same_stalls(path: Path) -> None:
    assert_agree(read_kineto(path).trace)


def test_where_the_host_and_a_dependency_are_done_at_once_the_host_is_charged() -> None:
    trace = recorded(row(0, "decode", "workers", 0, 50), row(1, "copy", "h2d", 60, 70, submit_ns=10, queued_ns=50, deps=(0,)), until_ns=70)
    assert_agree(trace)
    assert [stall.cause.kind for unit in account(trace) if unit.lane == "h2d" for stall in unit.stalls] == ["host", "dispatch"]


def test_the_host_s_time_is_looked_at_in_parts_where_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_timeline, "PARTS_AT_ONCE", 7)
    assert_agree(run(lambda device: pipeline(device, 60, 1)))


def test_the_programs_here_have_every_kind_of_cause() -> None:
    kinds: set[str] = set()
    for seed in range(60):
        trace = with_late_launches(random_schedule(seed, 120).trace(), seed)
        kinds |= {stall.cause.kind for unit in account(trace) for stall in unit.stalls}
        kinds |= {"late launch"} if (trace["kind"] == KIND_LAUNCH).any() else set()
    assert kinds >= {"dependency", "host", "deadline", "dispatch", "end", "late launch"}
