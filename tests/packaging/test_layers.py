"""The layers hold, and the check would notice if they did not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(LINT), "--no-cache"]
    return subprocess.run(command, cwd=root, env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("labkit/schedule/op.py", "from labkit.device import Device"),
        ("labkit/metrics/metric.py", "from labkit.lab import run"),
        ("labkit/trace/trace.py", "import torch"),
    ],
)
def test_a_planted_violation_is_noticed(tmp_path: Path, module: str, line: str) -> None:
    shutil.copytree(ROOT / "labkit", tmp_path / "labkit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    planted = tmp_path / module
    planted.write_text(planted.read_text() + f"\n\n{line}\n")
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


def test_the_layers_hold() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
