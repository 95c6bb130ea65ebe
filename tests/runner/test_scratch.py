"""The folder of a worker goes with it, and with the next one where its owner was killed."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.runner.scratch import PREFIX, Scratch

OWNER = "from labkit.runner.scratch import Scratch; import time; mine = Scratch(); print(mine.path, flush=True); time.sleep(600)"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path


@pytest.fixture
def owner(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another program that has a folder, and the folder."""
    program = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    yield program, Path(program.stdout.readline().strip())
    program.kill()
    program.wait()
    program.stdout.close()


def test_a_folder_goes_when_it_is_closed(temporary: Path):
    scratch = Scratch()
    (scratch.path / "log.txt").write_text("words")
    assert scratch.path.parent == temporary
    scratch.close()
    scratch.close()
    assert list(temporary.iterdir()) == []


def test_a_folder_goes_with_its_program(temporary: Path):
    program = subprocess.run([sys.executable, "-c", OWNER.partition(" time.sleep")[0]], stdout=subprocess.PIPE, text=True)
    assert program.returncode == 0
    assert not Path(program.stdout.strip()).exists()


def test_a_folder_whose_owner_was_killed_goes_when_the_next_is_made(owner: tuple[subprocess.Popen[str], Path]):
    program, left = owner
    (left / "trace-0.parquet").write_bytes(b"0" * 1000)
    program.kill()
    program.wait()
    assert left.exists()
    Scratch().close()
    assert not left.exists()


def test_a_folder_whose_owner_lives_stays(owner: tuple[subprocess.Popen[str], Path]):
    mine = Scratch()
    Scratch().close()
    assert owner[1].exists()
    assert mine.path.exists()
    mine.close()


def test_what_has_no_owner_yet_or_is_not_ours_stays(temporary: Path):
    others = [temporary / f"{PREFIX}begun", temporary / "another-program"]
    for other in others:
        other.mkdir()
    Scratch().close()
    assert all(other.exists() for other in others)
