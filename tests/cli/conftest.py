"""Running commands in this process: what they print, and their exit code."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from labkit.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def labkit(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs `labkit WORDS…` in an empty working folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ended:
        capfd.readouterr()
        try:
            code = main(list(words))
        except SystemExit as left:  # argparse leaves this way
            code = int(left.code or 0)
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return run
