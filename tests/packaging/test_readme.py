"""The README's recipe works as it is printed: the file is cut out of the page, put into the catalogue, and run."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

import labkit
from labkit import experiments

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def recipe() -> str:
    """The code block below "Add an experiment"."""
    section = README.split("## Add an experiment")[1]
    return re.search(r"```python\n(.*?)```", section, re.S).group(1)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = ModuleType("labkit.experiments.sums")
    exec(compile(recipe(), "sums.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "labkit.experiments.sums", module)
    monkeypatch.setitem(experiments._CATALOGUE, "sums", "labkit.experiments.sums")
    cloudpickle.register_pickle_by_value(module)  # there is no such file for the worker to import
    yield module
    cloudpickle.unregister_pickle_by_value(module)


def test_the_recipe_is_a_whole_file_that_runs_on_the_cpu_and_is_predicted(sums: ModuleType) -> None:
    measured = labkit.run("sums", device="cpu", steps=30, size=200_000)
    assert measured.record.status == "ok", measured.record.reason
    assert measured.summary.throughput.n == 30
    predicted = labkit.run("sums", device="simulated:h200", steps=30, size=200_000)
    assert predicted.record.verdict.grade == "PREDICTED"


def test_the_recipe_keeps_the_style_of_the_project(sums: ModuleType) -> None:
    assert sums.__doc__
    command = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--stdin-filename", "sums.py", "-"]
    result = subprocess.run(command, input=recipe(), capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stdout


def test_every_command_of_the_readme_exists() -> None:
    from labkit.cli.main import COMMANDS

    named = set(re.findall(r"^    labkit (\w+)", README, re.M))
    assert named <= set(COMMANDS)
    assert named >= {"run", "compare", "sweep", "list", "report", "export"}
