"""Recorded lookups from a CSV file, and everything that can be wrong with one."""

from pathlib import Path

import pytest

from labkit.data import csv_column
from labkit.data.block_trace import read_blocks
from labkit.errors import DataError


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "lookups.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    ["3\n0\n3\n", "block\n3\n0\n3\n", "time_s,block\n0.1,3\n0.2,0\n0.3,3\n", "\ufeffblock\r\n3\r\n0\r\n3", " 3 \n\n0\n3\n", "id\n3\n0\n3\n"],
)
def test_the_blocks_of_a_file_with_or_without_a_heading(tmp_path: Path, text: str):
    assert read_blocks(written(tmp_path, text), 10) == [3, 0, 3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no lookups: one row a lookup is needed, with the number of its block"),
        ("block\n", "has no lookups"),
        ("3\n10\n", "row 2 is '10'; allowed: a block of the table, 0 to 9 (its size is the knob blocks)"),
        ("block\n-1\n", "row 2 is '-1'; allowed"),
        ("3\n1.5\n", "row 2 is '1.5'; allowed"),
        ("3\nmany\n", "row 2 is 'many'; allowed"),
        ("3\nnan\n", "row 2 is 'nan'; allowed"),
        ("3\n٣\n", "row 2 is '٣'; allowed"),
        ("3\n" + "9" * 5000 + "\n", "row 2 is '999"),
        ("time,page\n1,2\n", "has the columns time, page; one of them must be called block"),
        ("time,block\n1\n", "row 2 is ''; allowed"),
        (b"\xff\xfe\x00\xd8", "cannot be read as CSV"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_row(tmp_path: Path, text: str | bytes, says: str):
    with pytest.raises(DataError) as refusal:
        read_blocks(written(tmp_path, text), 10)
    assert says in str(refusal.value)
    assert "lookups.csv" in str(refusal.value)


def test_a_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"nowhere.csv' cannot be read as CSV: No such file"):
        read_blocks(tmp_path / "nowhere.csv", 10)
    with pytest.raises(DataError, match="Is a directory"):
        read_blocks(tmp_path, 10)


def test_a_file_of_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(csv_column, "MOST_ROWS", 2)
    with pytest.raises(DataError, match="has 3 rows; allowed: 2 at most; cut the file"):
        read_blocks(written(tmp_path, "1\n2\n3\n"), 10)
