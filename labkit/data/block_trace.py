"""Lookups that were recorded, from a CSV file: one a row, the number of the block that it asks for."""

import csv
from pathlib import Path

from labkit.errors import DataError

COLUMN = "block"
MOST_ROWS = 10_000_000
LONGEST_SHOWN = 80


def read_blocks(path: Path, blocks: int) -> list[int]:
    """The numbers of the column `block` (or of the only column, with or without a heading), each 0 to `blocks` − 1.

    Raises DataError: no such file, not a whole number, a block that the table does not have, or no row at all, with the row's number.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"replay={str(path)!r} cannot be read as CSV: {getattr(error, 'strerror', None) or error}") from error
    if len(rows) > MOST_ROWS:
        raise DataError(f"replay={str(path)!r} has {len(rows):,} rows; allowed: {MOST_ROWS:,} at most; cut the file")
    place, first = _column(path, rows)
    numbers = [_block(path, number, row, place, blocks) for number, row in enumerate(rows[first:], start=first + 1)]
    if not numbers:
        raise DataError(f"replay={str(path)!r} has no lookups: one row a lookup is needed, with the number of its block")
    return numbers


def _column(path: Path, rows: list[list[str]]) -> tuple[int, int]:
    """The place of the column of blocks, and of the first row of them."""
    if not rows:
        return 0, 0
    heading = [cell.strip() for cell in rows[0]]
    if COLUMN in heading:
        return heading.index(COLUMN), 1
    if len(heading) > 1:
        raise DataError(f"replay={str(path)!r} has the columns {', '.join(heading)}; one of them must be called {COLUMN}")
    return 0, 1 if heading[0][:1].isalpha() else 0


def _block(path: Path, number: int, row: list[str], place: int, blocks: int) -> int:
    cell = row[place].strip() if place < len(row) else ""
    if cell.isascii() and cell.isdigit() and len(cell) <= 18 and int(cell) < blocks:
        return int(cell)
    shown = cell if len(cell) <= LONGEST_SHOWN else f"{cell[:LONGEST_SHOWN]}…"
    raise DataError(f"replay={str(path)!r}: row {number} is {shown!r}; allowed: a block of the table, 0 to {blocks - 1} (its size is the knob blocks)")
