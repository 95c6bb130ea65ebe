"""Lookups that were recorded, from a CSV file: one a row, the number of the block that it asks for."""

from pathlib import Path

from labkit.data.csv_column import read_column, refused
from labkit.errors import DataError

COLUMN = "block"


def read_blocks(path: Path, blocks: int) -> list[int]:
    """The numbers of the column `block` (or of the only column, with or without a heading), each 0 to `blocks` − 1.

    Raises DataError: no such file, not a whole number, a block that the table does not have, or no row at all, with the row's number.
    """
    numbers = [_block(path, number, cell, blocks) for number, cell in read_column(path, COLUMN, lambda cell: not cell[:1].isalpha())]
    if not numbers:
        raise DataError(f"replay={str(path)!r} has no lookups: one row a lookup is needed, with the number of its block")
    return numbers


def _block(path: Path, number: int, cell: str, blocks: int) -> int:
    if cell.isascii() and cell.isdigit() and len(cell) <= 18 and int(cell) < blocks:
        return int(cell)
    raise refused(path, number, cell, f"a block of the table, 0 to {blocks - 1} (its size is the knob blocks)")
