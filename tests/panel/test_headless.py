"""A panel where nobody can click: the cell runs to its end, shows what stands still, and leaves nothing behind."""

from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from labkit.panel.page import REQUEST_SLOTS, SLOTS, VIEW_SLOTS
from tests.browser.equipment import IPYKERNELS
from tests.panel.kernel import PLOTLY, WIDGET, Cell, Kernel, ended, started
from tests.panel.shown import Shown

SMALL = "device='simulated:t4', steps=40, image_size=32, batch_size=4, out=None"
PANEL = f"panel = labkit.Panel('pipeline', {SMALL})\npanel"
FIGURES = len(SLOTS) - len(VIEW_SLOTS) - len(REQUEST_SLOTS) - 2


@pytest.fixture(scope="module", params=IPYKERNELS, ids=lambda ipykernel: ipykernel.name)
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with started(request.param, tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


def assert_is_static(cell: Cell) -> None:
    """A table and every figure, and nothing that needs a kernel to be seen."""
    assert cell.shown(WIDGET) == []
    [table] = cell.shown("text/html")
    assert "simulated T4" in table
    assert len(cell.shown(PLOTLY)) == FIGURES


def test_the_cell_runs_to_its_end_and_shows_a_table_and_figures(kernel: Kernel):
    cell = kernel.execute(PANEL, people=False)
    assert_is_static(cell)
    assert cell.printed == ""
    assert kernel.children() == []
    assert kernel.models == {}
    assert kernel.value("panel.result().record.budget['steps']") == 40


def test_shown_again_it_shows_the_same_run(kernel: Kernel):
    first = kernel.value("panel.result().record.id")
    assert_is_static(kernel.execute("panel", people=False))
    assert kernel.value("panel.result().record.id") == first


def test_a_run_that_fails_fails_the_cell_and_leaves_no_process(kernel: Kernel):
    source = f"labkit.Panel('pipeline', data='/nowhere/at/all', {SMALL})"
    cell = kernel.execute(source, people=False, fails=True)
    assert cell.error.startswith("CellFailed: RunFailed: ")
    assert "/nowhere/at/all" in cell.error
    assert cell.outputs == []
    assert kernel.children() == []


@pytest.mark.parametrize(("told", "people", "static"), [("1", True, True), ("0", False, False), ("", True, False)])
def test_the_environment_overrides_what_the_front_end_says(kernel: Kernel, told: str, people: bool, static: bool):
    kernel.execute(f"import os; os.environ['LABKIT_HEADLESS'] = {told!r}")
    cell = kernel.execute(PANEL, people=people)
    kernel.execute("del os.environ['LABKIT_HEADLESS']")
    if static:
        assert_is_static(cell)
    else:
        assert Shown(kernel, cell).status["phase"] == "idle"
    kernel.execute("panel.close()")
    assert kernel.children() == []


def test_what_is_shown_to_people_ends_with_the_kernel(kernel: Kernel):
    cell = kernel.execute("shown = labkit.Panel('pipeline', device='simulated:t4')\nshown")
    assert Shown(kernel, cell).status["phase"] == "idle"
    children = kernel.children()
    assert len(children) == 1
    kernel.shut_down()
    assert ended(children)


def test_nbclient_executes_it(tmp_path: Any):
    notebook = new_notebook(cells=[new_code_cell(f"import labkit\n{PANEL}"), new_code_cell("panel.result().record.status")])
    NotebookClient(notebook, timeout=90, resources={"metadata": {"path": str(tmp_path)}}).execute()
    nbformat.validate(notebook)
    outputs = notebook.cells[0].outputs
    assert [output.output_type for output in outputs] == ["display_data"] * (1 + FIGURES)
    assert all(PLOTLY in output.data for output in outputs[1:])
    assert notebook.cells[1].outputs[0].data["text/plain"] == "'ok'"


def test_nbclient_stops_at_a_run_that_fails(tmp_path: Any):
    notebook = new_notebook(cells=[new_code_cell(f"import labkit\nlabkit.Panel('pipeline', data='/nowhere/at/all', {SMALL})")])
    with pytest.raises(CellExecutionError, match="/nowhere/at/all"):
        NotebookClient(notebook, timeout=90, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_outside_a_kernel_it_prints_words(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    from IPython.core.interactiveshell import InteractiveShell

    import labkit

    assert not InteractiveShell.initialized()
    labkit.Panel("pipeline", device="simulated:t4", steps=20, image_size=32, batch_size=4, out=None)._ipython_display_()
    assert "simulated T4" in capsys.readouterr().out
