"""Which folder is meant: run ids, the folders that hold runs, and how people name one of them.

An id begins with its time, so that names sort as the runs were made. A name that begins with a dot is not a
run: a save that is under way, or that a process left behind when it was killed.
"""

import os
import re
import secrets
from datetime import datetime
from pathlib import Path

from labkit.errors import StoreError

RUN_FILE = "run.json"
DEFAULT_FOLDER = "runs"

_STAMP_LENGTH = len("20261130-231502")
_LISTED_AT_MOST = 8


def new_run_id(experiment: str, now: datetime) -> str:
    """A new id, `20261130-231502-pipeline-3f2a`: time, experiment, four random hex digits."""
    word = re.sub(r"[^A-Za-z0-9_]+", "-", experiment).strip("-") or "run"
    return f"{now:%Y%m%d-%H%M%S}-{word}-{secrets.token_hex(2)}"


def run_folders(folder: Path) -> list[Path]:
    """The folders of runs, oldest first. Raises StoreError where `folder` is not there or cannot be read."""
    try:
        found = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return sorted(found, key=_age)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"there is no runs folder {folder}; runs are saved there, or name another folder"
        ) from None
    except OSError as error:
        raise StoreError(f"the runs folder {folder} cannot be read: {error.strerror or error}") from error


def find_run(text: str | Path, folder: str | Path = DEFAULT_FOLDER) -> Path:
    """The folder of the run that `text` names: a full id, the start or the end of one, a path, or "last".

    Raises StoreError where none is meant, or more than one; the message lists the candidates.
    """
    folder, name = Path(folder), str(text).strip()
    by_path = _folder_of_path(text)
    if by_path is not None:
        return by_path
    if not name:
        raise StoreError('no run is named; allowed: a run id, the start or end of one, a path, or "last"')
    folders = run_folders(folder)
    if name == "last":
        return _last(folders, folder)
    matches = [path for path in folders if path.name == name]
    matches = matches or [path for path in folders if path.name.startswith(name) or path.name.endswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise StoreError(
            f"{name!r} names {len(matches)} runs in {folder}: {_names(matches)}; give more of the id"
        )
    raise StoreError(
        f"there is no run {name!r} in {folder}; the newest there: {_names(folders) or 'none at all'}"
    )


def _age(path: Path) -> tuple[str, int, str]:
    """The sort key: the id's own time; within one second, when the run was written."""
    run_file = path / RUN_FILE
    written_ns = run_file.stat().st_mtime_ns if run_file.is_file() else 0
    return path.name[:_STAMP_LENGTH], written_ns, path.name


def _folder_of_path(text: str | Path) -> Path | None:
    """The run folder that a path leads to, also by its run.json; None where `text` is not a path to one."""
    path = Path(text)
    if isinstance(text, str) and "/" not in text and os.sep not in text:
        return None
    if path.name == RUN_FILE and path.is_file():
        return path.parent
    if path.is_dir():
        return path
    raise StoreError(f"there is no run at {path}: a run is a folder that holds {RUN_FILE}")


def _last(folders: list[Path], folder: Path) -> Path:
    written = [path for path in folders if (path / RUN_FILE).is_file()]
    if not written:
        raise StoreError(f"there is no last run: {folder} holds none")
    return written[-1]


def _names(folders: list[Path]) -> str:
    """The newest few by name."""
    newest = [path.name for path in folders[::-1][:_LISTED_AT_MOST]]
    more = len(folders) - len(newest)
    return ", ".join(newest) + (f" and {more} more" if more else "")
