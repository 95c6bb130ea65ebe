"""The notebooks of the checkout: thin, stripped, true to the knob model; and papermill's run is the command line's."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labkit.notebook import check_parameters, execute_notebook
from labkit.runner.record import RunRecord
from labkit.store import StoredRun, load_run

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
START, PIPELINED, TRUST, SERVING, OFFLOAD = NOTEBOOKS
PLOTLY = "application/vnd.plotly.v1+json"
SETTINGS = {"prefetch": 4, "batch_size": 4, "image_size": 32, "device": "cpu", "seconds": 1.0}

each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@dataclass(frozen=True)
class Executed:
    """An executed notebook, and the only run that it left."""

    path: Path
    cells: list[Any]
    run: StoredRun

    @property
    def printed(self) -> str:
        outputs = [output for cell in self.cells for output in cell.get("outputs", ())]
        return "".join(output.text for output in outputs if output.output_type == "stream")

    def shown(self, mimetype: str) -> list[Any]:
        outputs = [output.get("data", {}) for cell in self.cells for output in cell.get("outputs", ())]
        return [data[mimetype] for data in outputs if mimetype in data]


def executed(path: Path, runs: Path) -> Executed:
    return Executed(path, nbformat.read(path, as_version=4).cells, load_run("last", runs))


def papermill(
    folder: Path, output: str, parameters: dict[str, Any], notebook: Path = PIPELINED
) -> subprocess.CompletedProcess[str]:
    flags = [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", str(notebook), output, *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def code_cells(notebook: Path) -> list[Any]:
    return [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]


@pytest.fixture(scope="session")
def pipelined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executed]:
    """The pipelined-training notebook, run by the papermill command."""
    folder = tmp_path_factory.mktemp("papermill")
    result = papermill(folder, "out.ipynb", SETTINGS)
    assert result.returncode == 0, result.stderr
    yield executed(folder / "out.ipynb", folder / "runs")


@each_notebook
def test_the_parameters_cell_is_the_models(notebook: Path) -> None:
    assert check_parameters(notebook) is None, f"python -m labkit.notebook.parameters {notebook.relative_to(ROOT)}"


@each_notebook
def test_outputs_are_stripped(notebook: Path) -> None:
    for cell in code_cells(notebook):
        assert (cell.outputs, cell.execution_count) == ([], None)


@each_notebook
def test_the_file_is_valid_names_the_kernel_python3_and_carries_nothing_else(notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=nbformat.NO_CONVERT)
    nbformat.validate(content)
    assert (content.nbformat, content.nbformat_minor) == (4, 5)
    assert content.metadata.kernelspec.name == "python3"
    assert set(content.metadata) <= {"kernelspec", "language_info", "labkit"}
    assert {name for cell in content.cells for name in cell.metadata} == {"tags"}
    ids = [cell.id for cell in content.cells]
    assert len(set(ids)) == len(ids)


@each_notebook
def test_the_notebook_is_thin(notebook: Path) -> None:
    for cell in code_cells(notebook):
        nodes = ast.walk(ast.parse(cell.source))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        assert all((node.end_lineno or 0) - node.lineno + 1 <= 5 for node in functions)
        if "parameters" not in cell.metadata.get("tags", ()):
            assert cell.source.count("\n") < 12
            assert max(map(len, cell.source.splitlines())) <= 100, "a line is cut off in a notebook"


@each_notebook
def test_links_lead_to_files(notebook: Path) -> None:
    text = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells)
    assert all((notebook.parent / link).is_file() for link in re.findall(r"\]\(([^)#:]+)\)", text))
    assert all((ROOT / place).is_file() for place in re.findall(r"`(labkit/[\w/]+\.py)`", text))


def test_papermill_leaves_the_record_that_the_command_line_leaves(pipelined: Executed, tmp_path: Path) -> None:
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "labkit", "run", "pipeline", *flags, "--out", str(tmp_path), "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    theirs, ours = RunRecord.from_dict(json.loads(result.stdout)), pipelined.run.record
    same = ("key", "experiment", "status", "knobs", "budget", "device", "device_label", "measured", "notes", "schema_version")
    assert {name: getattr(ours, name) for name in same} == {name: getattr(theirs, name) for name in same}
    for part in ("metrics", "costs", "provenance", "monitor", "results"):
        assert set(getattr(ours, part)) == set(getattr(theirs, part)), part
    assert ours.knobs["prefetch"] == 4
    assert ours.budget == {"steps": None, "seconds": 1.0, "warmup": 8}


def test_the_executed_notebook_shows_every_figure_and_stays_small(pipelined: Executed) -> None:
    the_panels = [
        "Side by side",
        "Throughput over time",
        "Where the time of each lane went",
        "Timeline",
        "Distribution of step intervals",
    ]
    expected = [
        *the_panels,
        "Side by side",
        "Predicted and measured",
        "Timelines on one time scale",
    ]
    titles = [figure["layout"]["title"]["text"] for figure in pipelined.shown(PLOTLY)]
    assert [title for title, words in zip(titles, expected, strict=True) if words not in title] == []
    assert pipelined.path.stat().st_size <= 1_000_000
    assert not pipelined.shown("application/vnd.jupyter.widget-view+json")


def test_the_executed_notebook_says_what_was_measured_what_was_not_and_where_the_record_is(pipelined: Executed) -> None:
    assert "No prediction for this machine: this machine has not been calibrated" in pipelined.printed
    assert "B against A, throughput:" in pipelined.printed
    assert f"{pipelined.run.record.id} ok, saved in {pipelined.run.path.resolve()}" in pipelined.printed
    tables = pipelined.shown("text/html")
    assert len(tables) == 2
    assert all("measured on CPU threads" in table for table in tables)
    side_by_side = pipelined.shown(PLOTLY)[5]
    assert any("simulated H200" in bars["name"] for bars in side_by_side["data"])


def test_a_wrong_value_fails_the_papermill_command_and_names_the_knob(tmp_path: Path) -> None:
    result = papermill(tmp_path, "out.ipynb", {"prefetch": 999})
    assert result.returncode != 0
    assert "prefetch=999 is not allowed; allowed: whole number, 0 to 64" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_the_first_notebook_runs_headless(tmp_path: Path) -> None:
    parameters = {"device": "cpu", "steps": 10, "seconds": None, "out": tmp_path / "runs"}
    path = execute_notebook(START, tmp_path / "out.ipynb", parameters, progress=False)
    start = executed(path, tmp_path / "runs")
    assert start.run.record.metrics["throughput"]["n"] == 10
    devices, catalogue, table = start.shown("text/html")
    assert "simulated H200" in devices
    assert "What does loading ahead of the training step gain" in catalogue
    assert "measured on CPU threads" in table
    [figure] = start.shown(PLOTLY)
    assert "Timeline" in figure["layout"]["title"]["text"]


def test_the_notebook_of_a_server_runs_headless_and_shows_every_figure(tmp_path: Path) -> None:
    result = papermill(tmp_path, "out.ipynb", {"device": "cpu", "image_size": 32, "rate": 100.0}, SERVING)
    assert result.returncode == 0, result.stderr
    done = executed(tmp_path / "out.ipynb", tmp_path / "runs")
    titles = [figure["layout"]["title"]["text"] for figure in done.shown(PLOTLY)]
    expected = ["Side by side", "Throughput over time", "Latency from the intended arrival", "Where the time of each lane went", "Timeline"]
    expected += ["Distribution of latency", "Sizes of batches", "Distribution of latency", "Latency over the rate of requests"]
    expected += ["Latency p99 against throughput"]
    assert [title for title, words in zip(titles, expected, strict=True) if words not in title] == []
    assert "latency p99" in str(done.shown("text/html"))
    assert done.path.stat().st_size <= 1_000_000


def test_the_notebook_of_offloading_runs_headless_and_shows_every_figure(tmp_path: Path) -> None:
    result = papermill(tmp_path, "out.ipynb", {"device": "cpu", "width": 64, "layers": 4, "seconds": 1.0}, OFFLOAD)
    assert result.returncode == 0, result.stderr
    done = executed(tmp_path / "out.ipynb", tmp_path / "runs")
    titles = [figure["layout"]["title"]["text"] for figure in done.shown(PLOTLY)]
    expected = ["Side by side", "Throughput over time", "Where the time of each lane went", "Timeline", "Distribution"]
    expected += ["Timelines", "Throughput over batch size", "Side by side"]
    assert [title for title, words in zip(titles, expected, strict=True) if words not in title] == []
    assert "random weights: " in done.printed
    assert done.path.stat().st_size <= 1_000_000


def test_the_notebook_that_explains_runs_headless_and_shows_every_figure(tmp_path: Path) -> None:
    result = papermill(tmp_path, "out.ipynb", {"device": "cpu", "image_size": 32, "batch_size": 4}, TRUST)
    assert result.returncode == 0, result.stderr
    done = executed(tmp_path / "out.ipynb", tmp_path / "runs")
    expected = ["Measured wrongly", "From ideal to measured", "Timeline and critical path", "Bound, prediction and measurement"]
    expected += ["If a stage were faster", "Roofline", "Timeline"]
    titles = [figure["layout"]["title"]["text"] for figure in done.shown(PLOTLY)]
    assert [title for title, words in zip(titles, expected, strict=True) if words not in title] == []
    assert "B against A, throughput: " in done.printed
    assert "1.00 ideal (" in done.printed and "Predicted time on H200: " in done.printed
    assert "INVALID: " in done.shown("text/html")[0]
    assert done.path.stat().st_size <= 1_000_000
