"""One column of a CSV file that somebody recorded: the one of a name, or the only one."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from labkit.errors import DataError

MOST_ROWS = 10_000_000
LONGEST_SHOWN = 80


def read_column(path: Path, column: str, is_value: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """The cells of a column with the numbers of their rows, from 1 on. A file of one column may do without a heading.

    is_value  whether the first cell of a file with one column is a value already
    Raises DataError, which names the knob `replay`: a file that cannot be read, is too long, or has no such column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"replay={str(path)!r} cannot be read as CSV: {getattr(error, 'strerror', None) or error}") from error
    if len(rows) > MOST_ROWS:
        raise DataError(f"replay={str(path)!r} has {len(rows):,} rows; allowed: {MOST_ROWS:,} at most; cut the file")
    heading = [cell.strip() for cell in rows[0]] if rows else []
    if len(heading) > 1 and column not in heading:
        raise DataError(f"replay={str(path)!r} has the columns {', '.join(heading)}; one of them must be called {column}")
    place = heading.index(column) if column in heading else 0
    first = 1 if column in heading or (heading and not is_value(heading[0])) else 0
    for number, row in enumerate(rows[first:], start=first + 1):
        yield number, row[place].strip() if place < len(row) else ""


def refused(path: Path, number: int, cell: str, allowed: str) -> DataError:
    """The error for a cell that cannot be."""
    shown = cell if len(cell) <= LONGEST_SHOWN else f"{cell[:LONGEST_SHOWN]}…"
    return DataError(f"replay={str(path)!r}: row {number} is {shown!r}; allowed: {allowed}")
