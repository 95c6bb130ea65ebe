"""What the shipped data sets are, whose they are, and whether every file is still as it was shipped.

`datasets/catalog.toml` has one table for each collection. The checksums lie beside the files, in the format
that `sha256sum --check` reads, so that they can be checked without labkit too.
"""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.data.locate import CATALOG
from labkit.errors import DataError

_SHA256_DIGITS = 64


@dataclass(frozen=True)
class Source:
    """One picture or text that a collection was made from, and its rights.

    `package` is where it was taken from, `sha256` the checksum of the file there.
    """

    name: str
    title: str
    author: str
    licence: str
    package: str
    sha256: str
    page: str | None
    note: str | None


@dataclass(frozen=True)
class Collection:
    """One table of the catalog. `count` files lie in `folder`; `checksums` lists the sha256 of each."""

    name: str
    description: str
    folder: Path
    count: int
    licences: tuple[str, ...]
    checksums: Path
    made: str
    sources: tuple[Source, ...]


def read_catalog(root: Path) -> dict[str, Collection]:
    """The collections under `root`, by name. Raises DataError if the catalog is missing or malformed."""
    path = root / CATALOG
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read the catalog {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"the catalog {path} is not valid TOML: {error}") from error
    return {name: _collection(root, path, name, table) for name, table in tables.items()}


def verify(root: Path) -> list[str]:
    """The names, relative to `root`, of all listed files that are missing or changed. Empty: all is well."""
    return [
        name
        for collection in read_catalog(root).values()
        for name, expected in _listed(root, collection)
        if _sha256(root / name) != expected
    ]


def _collection(root: Path, path: Path, name: str, table: Any) -> Collection:
    try:
        return Collection(
            name=name,
            description=table["description"],
            folder=root / table["folder"],
            count=table["count"],
            licences=tuple(table["licences"]),
            checksums=root / table["checksums"],
            made=table["made"],
            sources=tuple(_source(entry) for entry in table["sources"]),
        )
    except KeyError as error:
        raise DataError(f"the catalog {path} lacks {error} in its table [{name}]: add it") from error
    except TypeError as error:
        raise DataError(f"the catalog {path} has a wrong type in its table [{name}]: {error}") from error


def _source(entry: Mapping[str, str]) -> Source:
    return Source(
        name=entry["name"],
        title=entry["title"],
        author=entry["author"],
        licence=entry["licence"],
        package=entry["package"],
        sha256=entry["sha256"],
        page=entry.get("page"),
        note=entry.get("note"),
    )


def _listed(root: Path, collection: Collection) -> Iterator[tuple[str, str]]:
    """Each file of a collection as (name relative to `root`, sha256), in the order of its list."""
    path = collection.checksums
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the checksums {path} that the catalog names: {error}") from error
    for number, line in enumerate(lines, 1):
        digest, _, name = line.partition("  ")
        if len(digest) != _SHA256_DIGITS or not name:
            raise DataError(f"line {number} of {path} is {line!r}, expected '<sha256>  <file>'")
        yield (path.parent / name).relative_to(root).as_posix(), digest


def _sha256(path: Path) -> str | None:
    """The checksum of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
