"""execute_notebook: wrong parameters are refused before a kernel starts, a failing cell is told in words."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from labkit.errors import ExperimentError, KnobError, RunFailed, StoreError
from labkit.notebook import execute_notebook, parameters_source
from labkit.notebook.execute import checked_parameters

SOURCE = 'name = "a"\nvalues = [1, 2]\nshare = 0.5\nmissing = None'


@pytest.fixture
def notebook(tmp_path: Path) -> Callable[..., Path]:
    """Writes a notebook: a parameters cell, then the cells given."""

    def write(*cells: str, parameters: str = SOURCE, experiment: str | None = None, name: str = "a.ipynb") -> Path:
        content = new_notebook(
            cells=[new_code_cell(parameters, metadata={"tags": ["parameters"]}), *map(new_code_cell, cells)],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
            | ({"labkit": {"experiment": experiment}} if experiment else {}),
        )
        nbformat.write(content, tmp_path / name)
        return tmp_path / name

    return write


def printed(executed: Path) -> str:
    cells = nbformat.read(executed, as_version=4).cells
    return "".join(output.get("text", "") for output in cells[-1].outputs)


def test_values_arrive_plain_in_the_callers_working_folder(
    notebook: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    path = notebook("import os\nprint(os.getcwd(), [name, values, share, missing])", name="{braces}.ipynb")
    given = {"name": Path("b/c"), "values": (np.int64(3), 4.5), "share": np.float32(0.25), "missing": True}
    executed = execute_notebook(path, Path("new/folder/{out}.ipynb"), given, progress=False)
    assert executed == Path("new/folder/{out}.ipynb")
    assert printed(home / executed) == f"{home} ['b/c', [3, 4.5], 0.25, True]\n"
    assert nbformat.read(path, as_version=4).cells[1].outputs == [], "the notebook itself is left as it was"


def test_a_failing_cell_is_told_in_words(notebook: Callable[..., Path], tmp_path: Path) -> None:
    path = notebook("1 / 0", "print('never')")
    with pytest.raises(RunFailed) as caught:
        execute_notebook(path, tmp_path / "out.ipynb", progress=False)
    assert str(caught.value) == (
        f"cell [2] of a.ipynb failed: ZeroDivisionError: division by zero; see {tmp_path / 'out.ipynb'}"
    )
    assert "ZeroDivisionError" in (tmp_path / "out.ipynb").read_text()


def test_a_kernel_that_dies_is_told_in_words(notebook: Callable[..., Path], tmp_path: Path) -> None:
    path = notebook("import os\nos._exit(3)")
    with pytest.raises(RunFailed, match=r"a.ipynb did not end: its kernel died"):
        execute_notebook(path, tmp_path / "out.ipynb", progress=False)


def test_an_unknown_parameter_is_refused_with_the_allowed_ones(notebook: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(KnobError) as caught:
        execute_notebook(notebook(), tmp_path / "out.ipynb", {"nam": 1})
    assert str(caught.value) == "there is no parameter 'nam'; allowed: name, values, share, missing"
    assert not (tmp_path / "out.ipynb").exists()


def test_a_value_that_the_model_does_not_allow_is_refused_before_a_kernel_starts(
    notebook: Callable[..., Path], tmp_path: Path
) -> None:
    path = notebook(parameters=parameters_source("pipeline"), experiment="pipeline")
    with pytest.raises(KnobError, match="prefetch=999 is not allowed; allowed: whole number, 0 to 64"):
        execute_notebook(path, tmp_path / "out.ipynb", {"prefetch": 999})
    assert checked_parameters(path, {"prefetch": "4", "device": "cpu"}) == {"prefetch": "4", "device": "cpu"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), datetime(2026, 1, 1), {"a": 1}, {1}, [object()], np.zeros(2)])
def test_what_papermill_cannot_write_down_is_refused(notebook: Callable[..., Path], value: Any) -> None:
    with pytest.raises(KnobError, match="cannot be given to a notebook; allowed: text, finite numbers"):
        checked_parameters(notebook(), {"share": value})


def test_a_notebook_is_never_written_over(notebook: Callable[..., Path]) -> None:
    path = notebook("print(name)")
    with pytest.raises(StoreError, match="is the notebook itself; name another file"):
        execute_notebook(path, path)


def test_an_output_that_cannot_be_written_is_an_error_in_words(notebook: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write the executed notebook to"):
        execute_notebook(notebook(), tmp_path / "file" / "out.ipynb")


def test_a_missing_notebook_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="there is no notebook"):
        execute_notebook(tmp_path / "none.ipynb", tmp_path / "out.ipynb")
