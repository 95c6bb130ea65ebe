"""The recorder keeps the newest rows up to its cap; what it drops is counted, and summed exactly, by lane."""

import threading
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import TraceError
from labkit.schedule import Status
from labkit.trace import Mark, Recorder, UnitSpan


def slack_of(cap: int) -> int:
    """Rows past the cap that may be held between two drops."""
    return max(cap // 4, 16)


# ---- the cap -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [0, -1])
def test_a_recorder_that_keeps_nothing_is_refused(cap: int):
    with pytest.raises(TraceError, match=f"trace cap {cap} is not allowed: at least 1 row must be kept"):
        Recorder(cap)


def test_up_to_the_cap_nothing_is_dropped(make_row):
    recorder = Recorder(cap=50)
    for op in range(50):
        recorder.append(make_row(op))
    trace = recorder.finish(1000)
    assert (len(trace), trace.dropped, trace.dropped_busy_ns) == (50, 0, {})


@pytest.mark.parametrize(("cap", "rows"), [(1, 500), (7, 500), (50, 51), (64, 1000), (100, 126)])
def test_past_the_cap_exactly_the_newest_rows_are_in_the_trace(make_row, cap: int, rows: int):
    recorder = Recorder(cap)
    for op in range(rows):
        recorder.append(make_row(op))
        assert len(recorder.rows) < cap + slack_of(cap)
    trace = recorder.finish(1000)
    assert trace["op"].tolist() == list(range(rows - cap, rows))
    assert trace.dropped == rows - cap
    assert trace.dropped_busy_ns == {"workers": 10 * (rows - cap)}


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from(["workers", "compute", "host"]), st.integers(0, 1000), st.integers(1, 10**15)), max_size=80),
)
def test_kept_and_dropped_busy_time_of_each_lane_add_up_exactly(make_row, cap: int, work: list[tuple[str, int, int]]):
    recorder = Recorder(cap)
    total: Counter[str] = Counter()
    for op, (lane, start, length) in enumerate(work):
        recorder.append(make_row(op, lane, start, start + length))
        total[lane] += length
    trace = recorder.finish(10**16)
    kept = Counter({lane: int((trace["end_ns"] - trace["start_ns"])[trace.rows_on(lane)].sum()) for lane in trace.lanes})
    assert kept + Counter(trace.dropped_busy_ns) == total
    assert len(trace) + trace.dropped == len(work)


def test_an_op_that_never_ran_is_counted_when_dropped_and_adds_no_busy_time(make_row):
    recorder = Recorder(cap=1)
    recorder.append(make_row(0, start=-1, end=-1, status=Status.SKIPPED))
    recorder.append(make_row(1))
    trace = recorder.finish(1000)
    assert (trace.dropped, trace.dropped_busy_ns) == (1, {"workers": 0})


def test_memory_stays_bounded_however_many_rows_are_recorded(make_row):
    recorder = Recorder(cap=100)

    def record(first: int, last: int) -> int:
        for op in range(first, last):
            recorder.append(make_row(op, deps=(op - 1, op - 2)))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = record(0, 2_000)
        late = record(2_000, 20_000)
    finally:
        tracemalloc.stop()
    assert late - early < 20_000


def test_a_row_recorded_by_many_threads_is_kept_or_dropped_exactly_once(make_row):
    recorder = Recorder(cap=200)
    rows = [[make_row(op, lane=f"lane{number}") for op in range(number, 8000, 4)] for number in range(4)]

    def record(mine: list) -> None:
        for one in mine:
            recorder.append(one)

    threads = [threading.Thread(target=record, args=(mine,)) for mine in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = recorder.finish(1000)
    assert (len(trace), trace.dropped) == (200, 7800)
    assert sum(trace.dropped_busy_ns.values()) == 78_000


# ---- what was recorded since ---------------------------------------------------------------------------------


def test_rows_since_a_position_are_each_given_once(make_row):
    recorder = Recorder()
    assert recorder.rows_since(0) == ([], 0)
    recorder.append(make_row(0))
    recorder.append(make_row(1))
    rows, place = recorder.rows_since(0)
    assert ([one[0] for one in rows], place) == ([0, 1], 2)
    assert recorder.rows_since(place) == ([], 2)
    recorder.append(make_row(2))
    assert [one[0] for one in recorder.rows_since(place)[0]] == [2]


def test_rows_since_a_position_whose_rows_were_dropped_meanwhile_are_those_still_kept(make_row):
    recorder = Recorder(cap=10)
    for op in range(5):
        recorder.append(make_row(op))
    _, place = recorder.rows_since(0)
    for op in range(5, 60):
        recorder.append(make_row(op))
    rows, later = recorder.rows_since(place)
    assert [one[0] for one in rows] == list(range(recorder.dropped, 60))
    assert recorder.dropped > 5 and later == 60
    assert recorder.rows_since(later) == ([], 60)


def test_a_reader_that_keeps_up_sees_every_row_once_across_drops(make_row):
    recorder = Recorder(cap=8)
    seen, place = [], 0
    for op in range(300):
        recorder.append(make_row(op))
        if op % 3 == 0:
            rows, place = recorder.rows_since(place)
            seen += [one[0] for one in rows]
    assert recorder.dropped > 200
    assert seen == list(range(299))[: len(seen)] and len(seen) == 298


def test_a_row_that_arrives_while_the_rows_are_being_taken_comes_with_the_next_ones(make_row):
    class Busy(list):
        """Another thread appends just after the rows were copied."""

        def __getitem__(self, key):
            taken = super().__getitem__(key)
            if isinstance(key, slice) and len(self) < 3:
                self.append(make_row(len(self)))
            return taken

    recorder = Recorder()
    recorder.rows = Busy([make_row(0)])
    seen, place = [], 0
    for _ in range(4):
        rows, place = recorder.rows_since(place)
        seen += [one[0] for one in rows]
    assert seen == [0, 1, 2]


# ---- the trace that comes of it --------------------------------------------------------------------------------


def test_rows_come_in_the_host_s_program_order_whatever_order_they_ended_in(make_row):
    recorder = Recorder()
    for op in (2, 0, 1):
        recorder.append(make_row(op, name=f"op {op}", deps=tuple(range(op))))
    trace = recorder.finish(1000)
    assert trace["op"].tolist() == [0, 1, 2]
    assert [trace.name_of(place) for place in range(3)] == ["op 0", "op 1", "op 2"]
    assert [trace.deps(place).tolist() for place in range(3)] == [[], [0], [0, 1]]


def test_a_unit_lives_from_its_opening_to_its_closing_or_to_the_end(make_row):
    recorder = Recorder()
    recorder.open_unit("workers", 0, 5)
    recorder.open_unit("workers", 1, 6)
    recorder.close_unit("workers", 1, 50)
    recorder.close_unit("workers", 7, 60)
    recorder.open_unit("workers", 1, 70)
    assert recorder.finish(100).units == (
        UnitSpan("workers", 0, 5, 100), UnitSpan("workers", 1, 6, 50), UnitSpan("workers", 1, 70, 100),
    )  # fmt: skip


def test_after_a_drop_units_begin_with_the_first_row_that_was_kept(make_row):
    recorder = Recorder(cap=2)
    recorder.open_unit("workers", 0, 0)
    recorder.open_unit("compute", 0, 0)
    recorder.close_unit("compute", 0, 15)
    for op in range(4):
        recorder.append(make_row(op, start=10 * op, end=10 * op + 10))
    trace = recorder.finish(100)
    assert trace.units == (UnitSpan("workers", 0, 20, 100),)
    assert trace.dropped == 2


def test_a_trace_may_be_taken_while_the_run_goes_on(make_row):
    recorder = Recorder()
    recorder.open_unit("workers", 0, 0)
    recorder.append(make_row(0))
    first = recorder.finish(10)
    recorder.append(make_row(1))
    assert (len(first), len(recorder.finish(20))) == (1, 2)
    assert [trace.units[0].close_ns for trace in (first, recorder.finish(20))] == [10, 20]


def test_marks_and_meta_are_copied_not_shared(make_row):
    recorder = Recorder()
    recorder.meta["device"] = "cpu"
    recorder.mark(5, 3, "prefetch", 2, 8)
    trace = recorder.finish(10)
    recorder.meta["device"] = "other"
    recorder.mark(6, 4, "prefetch", 8, 2)
    assert trace.meta == {"device": "cpu"}
    assert trace.marks == (Mark(5, 3, "prefetch", 2, 8),)


def test_a_recorder_without_rows_gives_an_empty_trace():
    trace = Recorder().finish(10)
    assert (len(trace), trace.names, trace.lanes, trace.makespan_ns) == (0, (), (), 0)
    assert trace.dep_offsets.tolist() == [0]
