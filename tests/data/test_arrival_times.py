"""Arrival times from CSV files, and the files that are none."""

from pathlib import Path

import pytest

from labkit.data.arrival_times import read_arrivals
from labkit.errors import DataError


def read(tmp_path: Path, text: str) -> list[int]:
    file = tmp_path / "arrivals.csv"
    file.write_text(text, encoding="utf-8")
    return read_arrivals(file)


@pytest.mark.parametrize(
    "text",
    ["0\n0.5\n1.25\n", "time_s\n0\n0.5\n1.25\n", "\ufefftime_s\n0\n0.5\n1.25", "who,time_s\na,0\nb,0.5\n\nc,1.25\n", "when\n0\n0.5\n1.25\n"],
)
def test_times_in_seconds_are_read_with_or_without_a_heading(tmp_path: Path, text: str):
    assert read(tmp_path, text) == [0, 500_000_000, 1_250_000_000]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no arrival times"),
        ("time_s\n", "no arrival times"),
        ("1\n0.5\n", "row 2 is earlier than the one before"),
        ("time_s\n-1\n", "row 2 is '-1'; allowed: seconds from 0 to 86400"),
        ("0\nnan\n", "row 2 is 'nan'"),
        ("0\ninf\n", "row 2 is 'inf'"),
        ("0\nsoon\n", "row 2 is 'soon'"),
        ("0\n86401\n", "row 2 is '86401'"),
        ("a,b\n1,2\n", "has the columns a, b; one of them must be called time_s"),
        ("a,time_s\n1\n", "row 2 is ''"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_row(tmp_path: Path, text: str, words: str):
    with pytest.raises(DataError, match=words):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"none.csv' cannot be read as CSV: No such file"):
        read_arrivals(tmp_path / "none.csv")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read_arrivals(tmp_path)
