"""Arrival times from a CSV file: one request a row, in seconds from the beginning."""

import csv
import math
from pathlib import Path

from labkit.errors import DataError
from labkit.units import NS_PER_S

COLUMN = "time_s"
MOST_S = 86_400.0


def read_arrivals(path: Path) -> list[int]:
    """The times of the column `time_s` (or of the only column, with or without a heading) in ns, ascending.

    Raises DataError: no such file, not a number, negative or after a day, not ascending, or no row at all, with the row's number.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"replay={str(path)!r} cannot be read as CSV: {getattr(error, 'strerror', None) or error}") from error
    place, first = _column(path, rows)
    times: list[int] = []
    for number, row in enumerate(rows[first:], start=first + 1):
        time_ns = _time_ns(path, number, row, place)
        if times and time_ns < times[-1]:
            raise DataError(f"replay={str(path)!r}: row {number} is earlier than the one before; arrival times must ascend: sort the file")
        times.append(time_ns)
    if not times:
        raise DataError(f"replay={str(path)!r} has no arrival times: one row a request is needed, with its time in seconds")
    return times


def _column(path: Path, rows: list[list[str]]) -> tuple[int, int]:
    """The place of the column of times, and of the first row of times."""
    if not rows:
        return 0, 0
    heading = [cell.strip() for cell in rows[0]]
    if COLUMN in heading:
        return heading.index(COLUMN), 1
    if len(heading) > 1:
        raise DataError(f"replay={str(path)!r} has the columns {', '.join(heading)}; one of them must be called {COLUMN}")
    return 0, 0 if _is_number(heading[0]) else 1


def _time_ns(path: Path, number: int, row: list[str], place: int) -> int:
    cell = row[place].strip() if place < len(row) else ""
    seconds = float(cell) if _is_number(cell) else math.nan
    if not 0 <= seconds <= MOST_S:
        raise DataError(f"replay={str(path)!r}: row {number} is {cell!r}; allowed: seconds from 0 to {MOST_S:g}")
    return round(seconds * NS_PER_S)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
