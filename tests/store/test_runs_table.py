"""The runs of a folder are a tidy table, and nothing absent is zero."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from labkit.errors import StoreError
from labkit.runner.record import RunRecord
from labkit.store import runs, save_run
from labkit.store.table import COLUMNS, SERVED_COLUMNS, table_of

METRICS = {
    "throughput": {"value": 640.0},
    "step_interval": {
        "p50": {"value": 5e7},
        "p95": {"value": 6e7},
        "p99": {"value": None, "reason": "n = 40 of 100"},
    },
    "batch_age": {"p50": {"value": 1.5e8}},
    "utilization": {"compute": {"value": 0.25}, "workers": {"value": 0.5}},
    "bottleneck": "compute",
}


def test_an_empty_folder_is_a_table_without_rows(tmp_path: Path):
    frame = runs(tmp_path)
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == 0


def test_a_missing_folder_is_an_error(tmp_path: Path):
    with pytest.raises(StoreError, match="no runs folder"):
        runs(tmp_path / "nowhere")


def test_a_run_is_a_row_with_its_numbers_lanes_and_knobs(tmp_path: Path, record: RunRecord):
    save_run(tmp_path, replace(record, metrics=METRICS, knobs={"prefetch": 2, "sizes": [1, 2]}), None)
    [row] = runs(tmp_path).to_dict("records")
    assert row["experiment"] == "pipeline" and row["grade"] == "WEAK" and row["measured"] is True
    assert row["throughput"] == 640.0
    assert row["step_interval_p50_ns"] == 5e7
    assert row["batch_age_p50_ns"] == 1.5e8
    assert row["busy.compute"] == 0.25 and row["busy.workers"] == 0.5
    assert row["knob.prefetch"] == 2 and row["knob.sizes"] == (1, 2)


def test_a_run_that_serves_brings_the_columns_of_its_requests_and_others_none(tmp_path: Path, record: RunRecord):
    requests = {"goodput": {"value": 80.0}, "latency": {"p50": {"value": 2e6}, "p99": {"value": None}}, "unserved": {"value": 0.1}}
    save_run(tmp_path, replace(record, metrics={**METRICS, "requests": requests}), None)
    [row] = runs(tmp_path).to_dict("records")
    assert (row["goodput"], row["latency_p50_ns"], row["unserved"]) == (80.0, 2e6, 0.1)
    assert pd.isna(row["latency_p99_ns"]) and pd.isna(row["batch_size"])
    assert not set(table_of([replace(record, metrics=METRICS)]).columns) & set(SERVED_COLUMNS)


def test_an_absent_number_is_not_a_zero(tmp_path: Path, record: RunRecord):
    save_run(tmp_path, replace(record, metrics=METRICS), None)
    save_run(tmp_path, replace(record, id="20261130-231503-pipeline-0001", status="failed", metrics={}), None)
    frame = runs(tmp_path)
    assert frame["step_interval_p99_ns"].isna().all()
    assert frame["throughput"].isna().tolist() == [False, True]
    assert frame["busy.compute"].isna().tolist() == [False, True]
    assert frame["bottleneck"].isna().tolist() == [False, True]


def test_a_broken_run_is_a_row_with_its_reason(tmp_path: Path, record: RunRecord):
    save_run(tmp_path, record, None)
    (tmp_path / "20261201-000000-pipeline-dead").mkdir()
    frame = runs(tmp_path)
    assert frame["status"].tolist() == ["ok", "broken"]
    assert "run.json is missing" in frame["reason"][1]
    assert frame["measured"].isna().tolist() == [False, True]
    assert pd.isna(frame["device"][1])


def test_the_columns_keep_their_kinds_with_and_without_rows(tmp_path: Path, record: RunRecord):
    empty = runs(tmp_path).dtypes
    save_run(tmp_path, replace(record, metrics=METRICS), None)
    (tmp_path / "20261201-000000-pipeline-dead").mkdir()
    full = runs(tmp_path).dtypes
    assert {name: str(full[name]) for name in COLUMNS} == {name: str(empty[name]) for name in COLUMNS}
