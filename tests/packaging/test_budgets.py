"""Budgets: sizes of files and functions, what an import brings in, and what the repository may weigh."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "labkit").rglob("*.py"))
MAX_LINES, MAX_FUNCTION_LINES = 330, 75
HEAVY = ("torch", "plotly", "ipywidgets", "scipy", "papermill", "pandas", "pydantic", "numpy")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_short_and_says_what_it_is_for(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{module} has no docstring"
    assert text.count("\n") <= MAX_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{module.name}: {node.name} has {length} lines"


@pytest.mark.parametrize("statement", ["import labkit", "import labkit; dir(labkit)", "import labkit.cli.main"])
def test_a_light_import_brings_in_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_stages_that_promise_it_load_without_torch_and_plotly() -> None:
    names = ["schedule", "trace", "metrics", "knobs", "store", "device", "device.simulated", "data"]
    code = ";".join(f"import labkit.{name}" for name in names)
    code += f"\nimport sys\nprint([name for name in {HEAVY[:5]!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_repository_stays_small() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    sizes = {path: path.stat().st_size for path in files if path.is_file()}
    assert sum(sizes.values()) < 16_000_000
    assert max(sizes.values()) < 1_000_000
