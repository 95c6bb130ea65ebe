"""Arrival times from a CSV file: one request a row, in seconds from the beginning."""

import math
from pathlib import Path

from labkit.data.csv_column import read_column, refused
from labkit.errors import DataError
from labkit.units import NS_PER_S

COLUMN = "time_s"
MOST_S = 86_400.0


def read_arrivals(path: Path) -> list[int]:
    """The times of the column `time_s` (or of the only column, with or without a heading) in ns, ascending.

    Raises DataError: no such file, not a number, negative or after a day, not ascending, or no row at all, with the row's number.
    """
    times: list[int] = []
    for number, cell in read_column(path, COLUMN, _is_number):
        time_ns = _time_ns(path, number, cell)
        if times and time_ns < times[-1]:
            raise DataError(f"replay={str(path)!r}: row {number} is earlier than the one before; arrival times must ascend: sort the file")
        times.append(time_ns)
    if not times:
        raise DataError(f"replay={str(path)!r} has no arrival times: one row a request is needed, with its time in seconds")
    return times


def _time_ns(path: Path, number: int, cell: str) -> int:
    seconds = float(cell) if _is_number(cell) else math.nan
    if not 0 <= seconds <= MOST_S:
        raise refused(path, number, cell, f"seconds from 0 to {MOST_S:g}")
    return round(seconds * NS_PER_S)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
