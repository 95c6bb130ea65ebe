"""A trace is columns; rows are found by id, by lane, or as a pandas table."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import TraceError
from labkit.schedule import Status
from labkit.trace import KIND_WAIT, Trace
from labkit.trace.trace import INT_COLUMNS, RowIndex


@pytest.fixture
def trace(make_row, make_trace) -> Trace:
    return make_trace(
        make_row(0, "workers", 10, 30, name="load", submit_ns=2, items=0, step=0),
        make_row(1, "compute", 40, 90, name="train", submit_ns=3, items=4, step=0, deps=(0,)),
        make_row(2, "host", 5, 90, name="wait", kind=KIND_WAIT, step=-1, woke_by=1, deps=(0, 1)),
        make_row(4, "workers", -1, -1, name="load", submit_ns=95, status=Status.SKIPPED, step=1),
    )


def test_rows_say_their_name_their_lane_and_what_they_depend_on(trace: Trace):
    assert [trace.name_of(row) for row in range(4)] == ["load", "train", "wait", "load"]
    assert [trace.lane_of(row) for row in range(4)] == ["workers", "compute", "host", "workers"]
    assert [trace.deps(row).tolist() for row in range(4)] == [[], [0], [0, 1], []]
    assert len(trace) == 4


def test_the_rows_of_a_lane_are_those_that_ran_there(trace: Trace):
    assert trace.rows_on("workers").tolist() == [0]
    assert trace.rows_on("host").tolist() == [2]
    assert trace.rows_on("disk").tolist() == []


def test_the_makespan_is_from_the_first_submit_to_the_last_end(trace: Trace):
    assert trace.makespan_ns == 90 - 2
    assert (trace.start_ns, trace.end_ns) == (0, 1000)


def test_a_trace_in_which_nothing_ran_has_no_makespan(make_row, make_trace):
    assert make_trace(make_row(0, start=-1, end=-1, submit_ns=5, status=Status.CANCELLED)).makespan_ns == 0
    assert make_trace().makespan_ns == 0


def test_a_trace_without_units_spans_nothing(trace: Trace):
    bare = replace(trace, units=())
    assert (bare.start_ns, bare.end_ns) == (0, 0)


def test_columns_of_different_length_are_no_trace(trace: Trace):
    with pytest.raises(TraceError, match="the trace's columns differ in length"):
        replace(trace, columns={**trace.columns, "step": np.zeros(3, np.int64)})
    with pytest.raises(TraceError, match="offsets 4"):
        replace(trace, dep_offsets=trace.dep_offsets[:-1])


def test_the_frame_spells_out_names_and_keeps_every_column(trace: Trace):
    frame = trace.frame()
    assert set(frame.columns) == {*INT_COLUMNS, "name", "lane", "deps"}
    assert frame["name"].tolist() == ["load", "train", "wait", "load"]
    assert frame["lane"].tolist() == ["workers", "compute", "host", "workers"]
    assert frame["deps"].tolist() == [(), (0,), (0, 1), ()]
    assert frame["end_ns"].tolist() == [30, 90, 90, -1]
    assert frame.groupby("lane")["items"].sum().to_dict() == {"compute": 4, "host": 0, "workers": 0}


def test_the_frame_of_an_empty_trace_has_the_same_columns(make_trace, trace: Trace):
    empty = make_trace().frame()
    assert len(empty) == 0
    assert list(empty.columns) == list(trace.frame().columns)


# ---- rows by id ----------------------------------------------------------------------------------------------


def index_of(ids: list[int], make_row, make_trace) -> RowIndex:
    return RowIndex(make_trace(*(make_row(op) for op in ids)))


def test_ids_without_gaps_are_found_by_their_distance(make_row, make_trace):
    index = index_of([5, 6, 7], make_row, make_trace)
    assert index.rows(np.array([7, 5, 4, 8, -1, 6])).tolist() == [2, 0, -1, -1, -1, 1]


def test_ids_with_gaps_are_found_by_search(make_row, make_trace):
    index = index_of([2, 5, 9], make_row, make_trace)
    assert index.rows(np.array([9, 2, 3, 10, -1, 5, 0])).tolist() == [2, 0, -1, -1, -1, 1, -1]


def test_in_an_empty_trace_no_id_is_found(make_row, make_trace):
    assert index_of([], make_row, make_trace).rows(np.array([0, 1])).tolist() == [-1, -1]
    assert index_of([3], make_row, make_trace).rows(np.empty(0, np.int64)).tolist() == []


@given(st.lists(st.integers(0, 40), unique=True), st.lists(st.integers(-3, 45)))
def test_an_id_is_found_where_it_is_and_nowhere_else(make_row, make_trace, ids: list[int], asked: list[int]):
    place = {op: row for row, op in enumerate(sorted(ids))}
    found = index_of(ids, make_row, make_trace).rows(np.array(asked, np.int64))
    assert found.tolist() == [place.get(op, -1) for op in asked]
