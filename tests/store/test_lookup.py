"""People name a run by its id, by a part of it, by a path, or as the last one."""

import os
import re
from datetime import datetime
from pathlib import Path

import pytest

from labkit.errors import StoreError
from labkit.store import find_run, new_run_id

IDS = (
    "20261130-231502-pipeline-3f2a",
    "20261130-231502-pipeline-b001",
    "20261130-231510-batching-77aa",
    "20261201-080000-pipeline-0c0c",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place, run_id in enumerate(IDS):
        (tmp_path / run_id).mkdir()
        file = tmp_path / run_id / "run.json"
        file.write_text("{}")
        os.utime(file, (place, place))
    return tmp_path


def test_an_id_has_the_time_the_experiment_and_four_hex_digits():
    run_id = new_run_id("pipeline", datetime(2026, 11, 30, 23, 15, 2))
    assert re.fullmatch(r"20261130-231502-pipeline-[0-9a-f]{4}", run_id)


def test_an_experiment_of_the_users_own_gives_a_safe_id():
    run_id = new_run_id("my module:factory/..", datetime(2026, 1, 2, 3, 4, 5))
    assert re.fullmatch(r"20260102-030405-my-module-factory-[0-9a-f]{4}", run_id)


def test_ids_of_one_second_differ():
    now = datetime(2026, 11, 30)
    assert len({new_run_id("pipeline", now) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (IDS[1], IDS[1]),
        ("20261201", IDS[3]),
        ("3f2a", IDS[0]),
        ("batching-77aa", IDS[2]),
        ("last", IDS[3]),
        (" last ", IDS[3]),
    ],
)
def test_an_id_its_start_its_end_or_last_names_a_run(folder: Path, text: str, expected: str):
    assert find_run(text, folder) == folder / expected


def test_a_full_id_is_meant_although_another_begins_with_it(folder: Path):
    (folder / f"{IDS[0]}-copy").mkdir()
    assert find_run(IDS[0], folder) == folder / IDS[0]


def test_a_path_names_a_run_wherever_it_lies(folder: Path, tmp_path: Path):
    for path in (folder / IDS[0], str(folder / IDS[0]), folder / IDS[0] / "run.json"):
        assert find_run(path, tmp_path / "elsewhere") == folder / IDS[0]


def test_what_names_two_runs_is_refused_with_both(folder: Path):
    with pytest.raises(StoreError, match=f"names 2 runs in .*: {IDS[1]}, {IDS[0]}; give more"):
        find_run("20261130-231502", folder)


def test_what_names_no_run_is_refused_with_the_newest(folder: Path):
    with pytest.raises(StoreError, match=f"no run 'ffff' in .*; the newest there: {IDS[3]}"):
        find_run("ffff", folder)


def test_a_path_to_nothing_is_refused(folder: Path):
    with pytest.raises(StoreError, match="no run at"):
        find_run(folder / "nothing", folder)


def test_no_name_at_all_is_refused(folder: Path):
    with pytest.raises(StoreError, match="no run is named"):
        find_run("  ", folder)


def test_the_last_run_of_one_second_is_the_one_that_was_written_last(folder: Path):
    os.utime(folder / IDS[0] / "run.json", (9, 9))
    for later in IDS[2:]:
        (folder / later / "run.json").unlink()
    assert find_run("last", folder) == folder / IDS[0]


def test_there_is_no_last_run_in_an_empty_folder(tmp_path: Path):
    with pytest.raises(StoreError, match="there is no last run"):
        find_run("last", tmp_path)
