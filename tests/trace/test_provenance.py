"""Where a result comes from is said once, is plain data, and what cannot be known is None and never an error."""

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from labkit.trace import provenance as module
from labkit.trace.provenance import provenance

NOW = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What lasts is found out anew in each test."""
    module._lasting.cache_clear()
    yield
    module._lasting.cache_clear()


def test_the_machine_the_software_and_the_moment_are_known_here():
    found = provenance(NOW)
    for name in ("host", "system", "cpu_count", "python", "packages", "time", "pid"):
        assert found[name], name
    assert found["time"] == "2024-05-06T07:08:09+00:00"
    assert found["pid"] == os.getpid()
    assert found["packages"]["numpy"] and found["packages"]["labkit"]


def test_it_is_plain_data():
    found = provenance(NOW)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_package_that_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_PACKAGES", ("numpy", "no-such-package-of-ours"))
    assert provenance(NOW)["packages"]["no-such-package-of-ours"] is None


def pretend_checkout(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """labkit seems to lie in `folder`, which seems to be a git checkout."""
    (folder / ".git").mkdir(exist_ok=True)
    monkeypatch.setattr(module, "__file__", str(folder / "labkit" / "trace" / "provenance.py"))


def test_without_git_the_revision_is_unknown_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pretend_checkout(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", "")
    found = provenance(NOW)
    assert found["revision"] is None
    assert found["host"] and found["python"]


@pytest.mark.parametrize("error", [
    FileNotFoundError("git"), subprocess.TimeoutExpired("git", 5), subprocess.CalledProcessError(128, "git"),
])  # fmt: skip
def test_a_git_that_fails_or_hangs_makes_the_revision_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception):
    pretend_checkout(monkeypatch, tmp_path)

    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(module.subprocess, "run", fail)
    assert provenance(NOW)["revision"] is None


def test_outside_a_checkout_git_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "labkit" / "trace" / "provenance.py"))
    monkeypatch.setattr(module.subprocess, "run", lambda *args, **options: pytest.fail("git was asked"))
    assert provenance(NOW)["revision"] is None


def test_a_checkout_says_its_revision_and_whether_it_was_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    try:
        git("init", "-q")
    except OSError:
        pytest.skip("there is no git here")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-q", "-m", "one", "--no-gpg-sign")
    pretend_checkout(monkeypatch, tmp_path)
    clean = provenance(NOW)["revision"]
    (tmp_path / "file").write_text("two")
    module._lasting.cache_clear()
    assert len(clean) == 12
    assert provenance(NOW)["revision"] == clean + "+"


def test_the_slow_part_is_found_out_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pretend_checkout(monkeypatch, tmp_path)
    first = provenance(NOW)
    monkeypatch.setattr(module.subprocess, "run", lambda *args, **options: pytest.fail("asked again"))
    assert provenance(NOW) == first


def test_a_processor_that_does_not_tell_its_name_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.Path, "read_text", lambda path, **options: "processor : 0\nBogoMIPS : 50.00\n")
    assert module.cpu_model() is None
    monkeypatch.setattr(module.Path, "read_text", lambda path, **options: "model name\t: Fast CPU @ 3 GHz\n")
    assert module.cpu_model() == "Fast CPU @ 3 GHz"


def test_where_there_is_no_proc_the_platform_is_asked(monkeypatch: pytest.MonkeyPatch):
    def missing(path: Path, **options: object) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(module.Path, "read_text", missing)
    monkeypatch.setattr(module.platform, "processor", lambda: "")
    assert module.cpu_model() is None
    monkeypatch.setattr(module.platform, "processor", lambda: "arm")
    assert module.cpu_model() == "arm"
