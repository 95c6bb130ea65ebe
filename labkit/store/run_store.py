"""The run store: a folder a run, with `run.json` (the record) and `trace.parquet` (what happened).

It stands between the runner, which makes records, and everything that reads them later: report, notebook,
comparison with an earlier run. A run is written under a temporary name beside its own and renamed, so that
whoever lists the folder sees it whole or not at all, whatever else is writing there.
"""

import errno
import json
import math
import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.errors import StoreError
from labkit.runner.record import SCHEMA_VERSION, RunRecord
from labkit.store.lookup import DEFAULT_FOLDER, RUN_FILE, find_run, run_folders
from labkit.trace.parquet import read_parquet, write_parquet
from labkit.trace.trace import Trace
from labkit.units import format_bytes

TRACE_FILE = "trace.parquet"


@dataclass(frozen=True)
class StoredRun:
    """A run as it lies on disk. `trace` is read when first asked for."""

    path: Path
    record: RunRecord

    @cached_property
    def trace(self) -> Trace | None:
        """What happened; None for a run that left no trace. Raises TraceError where the file is damaged."""
        file = self.path / TRACE_FILE
        return read_parquet(file) if file.exists() else None


@dataclass(frozen=True)
class BrokenRun:
    """A folder that should hold a run and cannot be read as one, and why."""

    path: Path
    reason: str


def save_run(folder: str | Path, record: RunRecord, trace: Trace | None) -> Path:
    """Write a run into `folder` and return its own folder there.

    All or nothing: after a failure nothing of the run is left. An id that is there already is never
    overwritten. Raises StoreError: what could not be written, where, why, and how many bytes are free.
    """
    folder = Path(folder)
    text = _json_of(record)
    final, temporary = folder / _checked(record.id), folder / f".tmp-{record.id}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_existing(final)
        temporary.mkdir()
    except OSError as error:
        raise _cannot_write(record.id, folder, error) from error
    try:
        (temporary / RUN_FILE).write_text(text, encoding="utf-8")
        if trace is not None:
            write_parquet(trace, temporary / TRACE_FILE)
        _refuse_existing(final)
        temporary.rename(final)
    except OSError as error:
        raise _cannot_write(record.id, folder, error) from error
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"the trace of run {record.id} is not plain data and cannot be written: {error}"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def load_run(path_or_id: str | Path, folder: str | Path = DEFAULT_FOLDER) -> StoredRun:
    """The run that a path, an id, the start or end of one, or "last" names. See `find_run`.

    Fields that this version does not know are ignored. Raises StoreError where there is no such run, or its
    record is missing, cut off, or written by a later version.
    """
    path = find_run(path_or_id, folder)
    return StoredRun(path, _read_record(path / RUN_FILE))


def list_runs(folder: str | Path = DEFAULT_FOLDER, newest: int | None = None) -> list[StoredRun | BrokenRun]:
    """The runs of a folder, oldest first; those that cannot be read stand there with the reason.

    newest  how many of the newest; all where it is None
    Raises StoreError where the folder itself is missing.
    """
    return [_read_or_broken(path) for path in run_folders(Path(folder))[-newest if newest else None :]]


def _read_or_broken(path: Path) -> StoredRun | BrokenRun:
    try:
        return StoredRun(path, _read_record(path / RUN_FILE))
    except StoreError as error:
        return BrokenRun(path, str(error))


def _read_record(file: Path) -> RunRecord:
    if file.exists() and not file.is_file():
        raise StoreError(f"{file} cannot be read: it is no regular file")
    try:
        data = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise StoreError(
            f"{file} is missing: the run was not written by labkit, or parts of it were deleted"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{file} cannot be read: {error}") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StoreError(f"{file} is not a run record: it gives no schema_version")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} is of schema version {version}; this labkit reads up to {SCHEMA_VERSION}: update it"
        )
    try:
        return RunRecord.from_dict(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{file} is not a whole run record: {error}") from error


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not strict JSON")


def _json_of(record: RunRecord) -> str:
    data = record.as_dict()
    try:
        return json.dumps(data, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    except (TypeError, ValueError):
        place, value = _not_json(data, "") or ("the record", "a value that JSON has no form for")
        raise StoreError(
            f"run {record.id} cannot be written as strict JSON: {place} is {value!r}; "
            "allowed: text, finite numbers, true, false, null, lists and tables of these"
        ) from None


def _not_json(value: Any, place: str) -> tuple[str, Any] | None:
    """Where the first value is that strict JSON cannot hold, and the value."""
    if isinstance(value, dict):
        entries = [(f"{place}.{name}".lstrip("."), part) for name, part in value.items()]
    elif isinstance(value, list | tuple):
        entries = [(f"{place}[{index}]", part) for index, part in enumerate(value)]
    else:
        fine = (
            value is None
            or isinstance(value, str | int)
            or (isinstance(value, float) and math.isfinite(value))
        )
        return None if fine else (place, value)
    return next((found for name, part in entries if (found := _not_json(part, name))), None)


def _checked(run_id: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", run_id):
        raise StoreError(
            f"run id {run_id!r} is not allowed as a folder name: letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, 200 at most"
        )
    return run_id


def _refuse_existing(final: Path) -> None:
    if final.exists():
        raise _taken(final.name, final.parent)


def _taken(run_id: str, folder: Path) -> StoreError:
    return StoreError(
        f"there is a run {run_id} in {folder} already, or one is being written; it is not overwritten"
    )


def _cannot_write(run_id: str, folder: Path, error: OSError) -> StoreError:
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and folder.is_dir():
        return _taken(run_id, folder)
    why = error.strerror or str(error)
    return StoreError(f"run {run_id} cannot be written to {folder}: {why} (free there: {_free(folder)})")


def _free(folder: Path) -> str:
    """Free space where `folder` is or would be."""
    for place in [folder.absolute(), *folder.absolute().parents]:
        try:
            return format_bytes(shutil.disk_usage(place).free)
        except OSError:
            continue
    return "unknown"
