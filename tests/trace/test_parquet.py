"""A trace written to Parquet comes back as it was; what is no trace is refused by name."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.errors import TraceError
from labkit.trace import Mark, Recorder, Trace, UnitSpan
from labkit.trace.parquet import VERSION, read_parquet, requests_file, write_parquet
from labkit.trace.recorder import RequestRow, Row
from labkit.trace.trace import REQUEST_COLUMNS

INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=6)
PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
META = st.dictionaries(NAMES, st.recursive(PLAIN, lambda part: st.lists(part) | st.dictionaries(NAMES, part), max_leaves=5))
SPANS = st.lists(st.builds(UnitSpan, NAMES, st.integers(0, 9), INT64, INT64), max_size=3)
MARKS = st.lists(st.builds(Mark, INT64, INT64, NAMES, PLAIN, PLAIN), max_size=3)
ROWS = st.builds(
    Row, op=INT64, kind=INT64, name=NAMES, lane=NAMES, unit=INT64, step=INT64, items=INT64, submit_ns=INT64, queued_ns=INT64,
    start_ns=INT64, end_ns=INT64, flop=INT64, bytes=INT64, woke_by=INT64, status=INT64, deps=st.lists(INT64, max_size=4).map(tuple),
)  # fmt: skip
REQUESTS = st.tuples(*[INT64] * len(REQUEST_COLUMNS))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    recorder = Recorder()
    for row in draw(st.lists(ROWS, max_size=6)):
        recorder.append(row)
    for request in draw(st.lists(REQUESTS, max_size=4)):
        recorder.answer(request)
    return replace(
        recorder.finish(0), units=tuple(draw(SPANS)), marks=tuple(draw(MARKS)), meta=draw(META),
        requests_dropped=draw(st.dictionaries(st.integers(0, 4), st.integers(0, 2**62), max_size=2)),
        dropped=draw(st.integers(0, 2**62)), dropped_busy_ns=draw(st.dictionaries(NAMES, st.integers(0, 2**62), max_size=2)),
    )  # fmt: skip


def assert_same(first: Trace, second: Trace) -> None:
    assert set(first.columns) == set(second.columns)
    for name, column in first.columns.items():
        assert second[name].dtype == column.dtype, name
        assert np.array_equal(second[name], column), name
    for name in ("dep_ids", "dep_offsets"):
        assert getattr(first, name).dtype == getattr(second, name).dtype == np.int64
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    for name in REQUEST_COLUMNS:
        assert first.requests[name].dtype == second.requests[name].dtype == np.int64
        assert np.array_equal(first.requests[name], second.requests[name]), name
    for name in {field.name for field in fields(Trace)} - {"columns", "dep_ids", "dep_offsets", "requests"}:
        assert getattr(first, name) == getattr(second, name), name


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(trace=traces())
def test_any_trace_comes_back_as_it_was(tmp_path: Path, trace: Trace):
    write_parquet(trace, tmp_path / "trace.parquet")
    assert_same(read_parquet(tmp_path / "trace.parquet"), trace)


def test_an_empty_trace_comes_back_empty(tmp_path: Path):
    write_parquet(Recorder().finish(5), tmp_path / "trace.parquet")
    assert_same(read_parquet(tmp_path / "trace.parquet"), Recorder().finish(5))


def test_a_trace_in_which_nothing_depends_on_anything(tmp_path: Path, make_row, make_trace):
    trace = make_trace(make_row(0), make_row(1))
    write_parquet(trace, tmp_path / "trace.parquet")
    read = read_parquet(tmp_path / "trace.parquet")
    assert_same(read, trace)
    assert (read.dep_ids.tolist(), read.dep_offsets.tolist()) == ([], [0, 0, 0])


def test_names_in_any_script_come_back(tmp_path: Path, make_row, make_trace):
    trace = make_trace(make_row(0, name="décoder"), make_row(1, name="解码 🦊", lane="ワーカー"), make_row(2, name=""))
    write_parquet(trace, tmp_path / "trace.parquet")
    assert read_parquet(tmp_path / "trace.parquet").names == ("décoder", "解码 🦊", "")


def test_a_run_on_the_virtual_clock_comes_back(tmp_path: Path, simulated_trace: Trace):
    write_parquet(simulated_trace, tmp_path / "trace.parquet")
    read = read_parquet(tmp_path / "trace.parquet")
    assert_same(read, simulated_trace)
    assert read.frame().equals(simulated_trace.frame())


def test_a_trace_of_many_row_groups_comes_back(tmp_path: Path, make_row, make_trace):
    trace = make_trace(*(make_row(op, deps=(op - 1,) * (op % 3)) for op in range(500)))
    write_parquet(trace, tmp_path / "one.parquet")
    pq.write_table(pq.read_table(tmp_path / "one.parquet"), tmp_path / "many.parquet", row_group_size=7)
    assert pq.ParquetFile(tmp_path / "many.parquet").num_row_groups == 72
    assert_same(read_parquet(tmp_path / "many.parquet"), trace)


@pytest.mark.parametrize("folder", ["op=3", "name=abc", "prefetch=2", "a b", "é"])
def test_the_name_of_the_folder_has_no_say(tmp_path: Path, folder: str, simulated_trace: Trace):
    (tmp_path / folder).mkdir()
    write_parquet(simulated_trace, tmp_path / folder / "trace.parquet")
    assert_same(read_parquet(tmp_path / folder / "trace.parquet"), simulated_trace)


# ---- what is no trace ------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path, simulated_trace: Trace) -> Path:
    write_parquet(simulated_trace, tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def rewritten(path: Path, rest: Any, without: tuple[str, ...] = ()) -> Path:
    """The file with other metadata, or without some of its columns."""
    table = pq.read_table(path).drop_columns(list(without))
    metadata = None if rest is None else {"labkit": rest if isinstance(rest, str) else json.dumps(rest)}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def rest_of(path: Path) -> dict[str, Any]:
    return json.loads(pq.read_schema(path).metadata[b"labkit"])


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(TraceError) as refusal:
        read_parquet(tmp_path / "none.parquet")
    assert str(refusal.value) == f"there is no trace at {tmp_path / 'none.parquet'}"


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.7, 0.95, 0.999])
def test_a_truncated_file_is_refused(written: Path, share: float):
    content = written.read_bytes()
    written.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(TraceError, match=r"trace\.parquet is not a labkit trace"):
        read_parquet(written)


@pytest.mark.parametrize("content", [b"", b"PAR1", b'{"traceEvents": []}', b"\x00" * 1000])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(TraceError, match=r"x\.parquet is not a labkit trace"):
        read_parquet(tmp_path / "x.parquet")


def test_a_folder_is_refused_even_if_traces_lie_in_it(written: Path):
    with pytest.raises(TraceError, match="is not a labkit trace"):
        read_parquet(written.parent)


@pytest.mark.parametrize("rest", [None, "", "{", "[]", "{}", "7", '"text"'])
def test_a_table_of_somebody_else_is_refused(written: Path, rest: Any):
    with pytest.raises(TraceError, match="is not a labkit trace"):
        read_parquet(rewritten(written, rest))


@pytest.mark.parametrize("missing", ["op", "name", "deps", "end_ns"])
def test_a_trace_without_one_of_its_columns_is_refused(written: Path, missing: str):
    with pytest.raises(TraceError, match=f"is not a labkit trace: .*{missing}"):
        read_parquet(rewritten(written, rest_of(written), without=(missing,)))


@pytest.mark.parametrize("missing", ["version", "names", "lanes", "units", "marks", "dropped", "dropped_busy_ns", "meta"])
def test_a_trace_without_a_part_of_its_metadata_is_refused_and_the_part_is_named(written: Path, missing: str):
    rest = rest_of(written)
    del rest[missing]
    with pytest.raises(TraceError, match=f"is not a labkit trace: .*{missing}"):
        read_parquet(rewritten(written, rest))


@pytest.mark.parametrize("wrong", [{"names": ["other"]}, {"units": [{"lane": "x"}]}, {"marks": [3]}, {"version": "one"}])
def test_metadata_that_do_not_fit_the_columns_are_refused(written: Path, wrong: dict[str, Any]):
    with pytest.raises(TraceError, match="is not a labkit trace"):
        read_parquet(rewritten(written, rest_of(written) | wrong))


def test_a_later_version_is_refused_with_both_versions(written: Path):
    with pytest.raises(TraceError) as refusal:
        read_parquet(rewritten(written, {"version": VERSION + 1, "layout": "unknown to us"}))
    assert str(refusal.value) == f"{written} is of trace version {VERSION + 1}; this labkit reads up to {VERSION}"


def test_requests_of_an_older_file_have_no_tokens(tmp_path: Path):
    recorder = Recorder()
    recorder.answer(RequestRow(0, 0, 5, 6, 7, 9, 0, 0, 3, 0))
    path = tmp_path / "trace.parquet"
    write_parquet(recorder.finish(10), path)
    file = requests_file(path)
    older = pq.read_table(file).drop_columns(["first_token_ns", "tokens"])
    pq.write_table(older, file)
    requests = read_parquet(path).requests
    assert (requests["first_token_ns"].tolist(), requests["tokens"].tolist(), requests["done_ns"].tolist()) == ([-1], [0], [9])
