"""Reading a notebook: its cells, the one with the parameters, and the experiment that its metadata name."""

import ast
from pathlib import Path
from typing import Any

from labkit.errors import ExperimentError

TAG = "parameters"


def read_notebook(notebook: Path) -> Any:
    """A notebook as nbformat reads it. Raises ExperimentError where it cannot be read."""
    import nbformat

    try:
        return nbformat.read(notebook, as_version=4)
    except FileNotFoundError:
        raise ExperimentError(f"there is no notebook {notebook}") from None
    except (OSError, ValueError, AttributeError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise ExperimentError(f"{notebook} cannot be read as a notebook: {error}") from error


def parameters_cell(content: Any) -> Any | None:
    """The cell tagged "parameters", None where there is none."""
    return next((cell for cell in content.cells if TAG in cell.metadata.get("tags", ())), None)


def experiment_of(content: Any) -> str | None:
    """The experiment that a notebook's metadata name: {"labkit": {"experiment": "pipeline"}}."""
    return content.metadata.get("labkit", {}).get("experiment")


def assigned_names(source: str) -> list[str]:
    """The names that a cell's plain assignments set, in order. Empty for a cell that is not Python."""
    try:
        lines = ast.parse(source).body
    except SyntaxError:
        return []
    targets = [_targets(line) for line in lines]
    return [target.id for line in targets for target in line if isinstance(target, ast.Name)]


def _targets(line: ast.stmt) -> list[ast.expr]:
    if isinstance(line, ast.Assign):
        return line.targets
    return [line.target] if isinstance(line, ast.AnnAssign) else []
