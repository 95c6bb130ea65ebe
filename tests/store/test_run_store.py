"""A run is on disk whole or not at all, and what is read back is what was written."""

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labkit.errors import StoreError, TraceError
from labkit.runner.record import RunRecord
from labkit.store import BrokenRun, StoredRun, list_runs, load_run, run_store, save_run
from labkit.trace import Trace

ID = "20261130-231502-pipeline-3f2a"


def test_a_run_comes_back_as_it_was_written(tmp_path: Path, record: RunRecord, trace: Trace):
    saved = save_run(tmp_path, record, trace)
    assert saved == tmp_path / ID
    assert sorted(path.name for path in saved.iterdir()) == ["run.json", "trace.parquet"]
    run = load_run(ID, tmp_path)
    assert run.record == record
    assert run.trace is not None
    np.testing.assert_array_equal(run.trace["end_ns"], [900, 1900])
    assert run.trace.marks == trace.marks


def test_the_runs_folder_is_made_when_it_is_missing(tmp_path: Path, record: RunRecord):
    assert save_run(tmp_path / "a" / "runs", record, None).is_dir()


def test_a_failed_run_without_a_trace_is_a_run(tmp_path: Path, record: RunRecord):
    failed = replace(record, status="failed", reason="out of memory: 3 GiB free", metrics={})
    save_run(tmp_path, failed, None)
    run = load_run(ID, tmp_path)
    assert run.record.reason == "out of memory: 3 GiB free"
    assert run.trace is None


def test_the_trace_is_not_read_before_it_is_asked_for(tmp_path: Path, record: RunRecord, trace: Trace):
    save_run(tmp_path, record, trace)
    (tmp_path / ID / "trace.parquet").write_bytes(b"PAR1 and then nothing")
    run = load_run(ID, tmp_path)
    with pytest.raises(TraceError, match="not a labkit trace"):
        _ = run.trace


def test_an_id_that_is_there_already_is_never_overwritten(tmp_path: Path, record: RunRecord, trace: Trace):
    save_run(tmp_path, record, None)
    with pytest.raises(StoreError, match="already"):
        save_run(tmp_path, replace(record, wall_s=9.0), trace)
    assert load_run(ID, tmp_path).record.wall_s == 1.5
    assert os.listdir(tmp_path) == [ID]


@pytest.mark.parametrize("run_id", ["", ".", "..", "../escape", "a/b", ".tmp-x", "a b", "x" * 201])
def test_an_id_that_is_no_safe_folder_name_is_refused(tmp_path: Path, run_id: str, record: RunRecord):
    with pytest.raises(StoreError, match="not allowed as a folder name"):
        save_run(tmp_path, replace(record, id=run_id), None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused_and_its_place_is_named(
    tmp_path: Path, bad: float, record: RunRecord
):
    record = replace(record, metrics={"throughput": {"value": bad}})
    with pytest.raises(StoreError, match=r"metrics\.throughput\.value is (nan|inf)"):
        save_run(tmp_path, record, None)
    assert os.listdir(tmp_path) == []


def test_a_value_that_is_not_plain_data_is_refused_and_its_place_is_named(tmp_path: Path, record: RunRecord):
    record = replace(record, knobs={"sizes": [1, np.int64(2)]})
    with pytest.raises(StoreError, match=r"knobs\.sizes\[1\] is np\.int64\(2\)"):
        save_run(tmp_path, record, None)


def test_a_full_disk_leaves_nothing_and_says_what_where_and_how_much_is_free(
    tmp_path: Path, monkeypatch, record: RunRecord, trace: Trace
):
    def half_a_file(trace: Trace, path: Path) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_store, "write_parquet", half_a_file)
    with pytest.raises(
        StoreError, match=rf"run {ID} cannot be written to .*: No space left on device \(free there: .*B\)"
    ):
        save_run(tmp_path, record, trace)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_in_the_midst_leaves_nothing(
    tmp_path: Path, monkeypatch, record: RunRecord, trace: Trace
):
    def interrupted(trace: Trace, path: Path) -> None:
        path.write_bytes(b"PAR1")
        raise KeyboardInterrupt

    monkeypatch.setattr(run_store, "write_parquet", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_run(tmp_path, record, trace)
    assert os.listdir(tmp_path) == []


LIMITED = """
import resource, sys
from dataclasses import replace
from labkit.store import load_run, save_run
run = load_run("last", sys.argv[1])
record, trace = replace(run.record, notes=("long",) * 2000), run.trace
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
save_run(sys.argv[2], record, trace)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no RLIMIT_FSIZE")
def test_a_refusal_of_the_operating_system_itself_leaves_nothing(
    tmp_path: Path, record: RunRecord, trace: Trace
):
    source, target = tmp_path / "source", tmp_path / "target"
    save_run(source, record, trace)
    command = [sys.executable, "-c", LIMITED, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "StoreError" in done.stderr and "File too large" in done.stderr
    assert os.listdir(target) == []


def test_a_read_only_folder_is_an_error_that_says_so(tmp_path: Path, monkeypatch, record: RunRecord):
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StoreError, match="Read-only file system"):
        save_run(tmp_path, record, None)


def test_a_file_where_the_folder_should_be_is_an_error(tmp_path: Path, record: RunRecord):
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(StoreError, match=r"cannot be written to .*runs"):
        save_run(tmp_path / "runs", record, None)


def test_of_many_writers_of_one_id_exactly_one_wins(tmp_path: Path, record: RunRecord, trace: Trace):
    def attempt(wall_s: float) -> float | None:
        try:
            save_run(tmp_path, replace(record, wall_s=wall_s), trace)
        except StoreError:
            return None
        return wall_s

    with ThreadPoolExecutor(8) as pool:
        won = [wall_s for wall_s in pool.map(attempt, map(float, range(16))) if wall_s is not None]
    assert len(won) == 1
    assert load_run(ID, tmp_path).record.wall_s == won[0]
    assert os.listdir(tmp_path) == [ID]


def test_whoever_lists_while_others_save_sees_whole_runs_only(
    tmp_path: Path, record: RunRecord, trace: Trace
):
    ids = [f"20261130-2315{second:02d}-pipeline-0000" for second in range(24)]
    with ThreadPoolExecutor(4) as pool:
        saves = [pool.submit(save_run, tmp_path, replace(record, id=run_id), trace) for run_id in ids]
        while not all(save.done() for save in saves):
            assert all(isinstance(run, StoredRun) for run in list_runs(tmp_path))
    assert [run.path.name for run in list_runs(tmp_path)] == ids
    assert [run.path.name for run in list_runs(tmp_path, newest=2)] == ids[-2:]


def test_a_temporary_folder_of_a_killed_process_is_not_a_run(tmp_path: Path, record: RunRecord):
    save_run(tmp_path, record, None)
    left_behind = tmp_path / ".tmp-20261130-231503-pipeline-aaaa-999999"
    left_behind.mkdir()
    (left_behind / "run.json").write_text('{"schema')
    assert [run.path.name for run in list_runs(tmp_path)] == [ID]


def test_fields_of_a_later_labkit_are_ignored(tmp_path: Path, record: RunRecord):
    file = save_run(tmp_path, record, None) / "run.json"
    data = json.loads(file.read_text()) | {"weather": "fine"}
    data["verdict"]["colour"] = "amber"
    file.write_text(json.dumps(data))
    assert load_run(ID, tmp_path).record == record


def a_broken_run(folder: Path, text: str | None) -> Path:
    path = folder / ID
    path.mkdir()
    if text is not None:
        (path / "run.json").write_text(text)
    return path


BROKEN = {
    "missing": (None, "is missing"),
    "empty": ("", "cannot be read"),
    "cut off": ('{"schema_version": 1, "id": "2026', "cannot be read"),
    "a list": ("[1, 2]", "gives no schema_version"),
    "no version": ('{"id": "x"}', "gives no schema_version"),
    "later": ('{"schema_version": 999}', "schema version 999; this labkit reads up to 1"),
    "fields missing": (
        '{"schema_version": 1, "verdict": {"grade": "VALID", "reasons": []}}',
        "not a whole run record",
    ),
    "verdict missing": ('{"schema_version": 1}', "not a whole run record"),
    "not text": ("\udce9\udcff", "cannot be read"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_record_that_cannot_be_read_is_an_error_and_is_listed_with_its_reason(tmp_path: Path, case: str):
    text, reason = BROKEN[case]
    path = a_broken_run(tmp_path, None if text is None else "")
    if text:
        (path / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(StoreError, match=reason):
        load_run(path)
    [listed] = list_runs(tmp_path)
    assert isinstance(listed, BrokenRun)
    assert reason in listed.reason


def test_a_missing_runs_folder_is_an_error(tmp_path: Path):
    with pytest.raises(StoreError, match=r"no runs folder .*nowhere"):
        list_runs(tmp_path / "nowhere")


def test_importing_the_store_brings_in_neither_pandas_nor_pyarrow():
    code = "import sys, labkit.store; print(*sorted({'pandas', 'pyarrow', 'plotly', 'torch'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []
