"""The parameters cell comes from the knob model, and its values come back typed, whatever the spelling."""

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from papermill.translators import PythonTranslator

import labkit.notebook.parameters as parameters
from labkit.errors import ExperimentError, KnobError
from labkit.experiments import experiment, experiments
from labkit.knobs import Knobs, knob
from labkit.notebook import check_parameters, parameters_source, run_parameters, write_parameters

PIPELINE = experiment("pipeline").knobs
AT_DEFAULTS = {"device": "auto", "seconds": 5.0, "steps": None, "out": "runs"}


def namespace(**changed: Any) -> dict[str, Any]:
    """A notebook's globals after its parameters cell, and a papermill cell with `changed`, have run."""
    names: dict[str, Any] = {}
    exec(parameters_source("pipeline"), names)
    return {**names, **changed}


class OtherKnobs(Knobs):
    sizes: tuple[int, ...] = knob((1, 2), "sizes to try")
    rate: float = knob(0.5, "requests a second")


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Knobs]], None]:
    """Puts another model in the place of every experiment's."""

    def use(knobs: type[Knobs]) -> None:
        monkeypatch.setattr(parameters, "experiment", lambda name: SimpleNamespace(knobs=knobs))

    return use


def test_the_cell_sets_what_the_run_takes_and_every_knob_to_its_default() -> None:
    names = namespace()
    values = {name: names[name] for name in [*AT_DEFAULTS, *PIPELINE.model_fields]}
    assert values == {**AT_DEFAULTS, **PIPELINE().model_dump()}


def test_a_comment_says_the_help_the_range_and_live_or_cold() -> None:
    lines = parameters_source("pipeline").splitlines()
    [prefetch] = [line for line in lines if line.startswith("prefetch = 2 ")]
    assert prefetch.endswith(
        "# batches loaded ahead of the step; 0 is the synchronous program [whole number, 0 to 64; live]"
    )
    assert next(line for line in lines if line.startswith("model")).endswith("[small | large; cold]")


@pytest.mark.parametrize("name", experiments())
def test_papermill_reads_every_line_of_the_cell(name: str) -> None:
    read = PythonTranslator.inspect({"source": parameters_source(name)})
    assert [parameter.name for parameter in read] == parameters.parameter_names(name)
    assert all(parameter.help for parameter in read)


def test_the_cell_has_no_annotation_and_no_second_equals_sign() -> None:
    source = parameters_source("pipeline")
    assert all(isinstance(line, ast.Assign) for line in ast.parse(source).body)
    assert max(line.count("=") for line in source.splitlines()) == 1


def test_a_help_with_an_equals_sign_is_refused_by_name(other: Callable) -> None:
    class Wrong(Knobs):
        depth: int = knob(1, "depth=0 is off")

    other(Wrong)
    with pytest.raises(ExperimentError, match="knob 'depth' must be one line without '='"):
        parameters_source("any")


def test_defaults_are_not_passed_on_and_turned_knobs_are() -> None:
    assert run_parameters("pipeline", namespace()) == AT_DEFAULTS
    turned = run_parameters("pipeline", namespace(prefetch=4, pinned=True, device="cpu"))
    assert turned == {**AT_DEFAULTS, "device": "cpu", "prefetch": 4}


@pytest.mark.parametrize(
    ("name", "spelling", "value"),
    [
        ("log_sync", "true", True),
        ("log_sync", "True", True),
        ("pinned", "false", False),
        ("pinned", 0, False),
        ("data", "photos", "photos"),
        ("data", Path("my/photos"), "my/photos"),
        ("data", 20240105, "20240105"),
        ("seed", "007", 7),
        ("seed", 1e3, 1000),
        ("prefetch", 4.0, 4),
        ("prefetch", "4", 4),
        ("batch_size", np.int64(32), 32),
        ("augment_on", "GPU", "gpu"),
        ("seconds", "1e3", 1000.0),
        ("seconds", 3, 3.0),
        ("seconds", "None", None),
        ("seconds", "null", None),
        ("steps", "1e3", 1000),
        ("steps", 50.0, 50),
        ("out", "none", None),
        ("out", Path("elsewhere"), "elsewhere"),
    ],
)
def test_every_spelling_of_papermill_and_a_shell_is_read_by_the_declared_type(name: str, spelling: Any, value: Any) -> None:
    read = run_parameters("pipeline", namespace(**{name: spelling}))[name]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("spelling", ["[1, 2, 3]", "1,2,3", [1, 2, 3], (1, 2.0, "3")])
def test_lists_are_read_in_every_spelling(other: Callable, spelling: Any) -> None:
    other(OtherKnobs)
    assert run_parameters("any", {**AT_DEFAULTS, "sizes": spelling, "rate": "1e3"}) == {
        **AT_DEFAULTS,
        "sizes": (1, 2, 3),
        "rate": 1000.0,
    }


def test_a_list_in_the_cell_is_equal_to_the_tuple_of_the_model(other: Callable) -> None:
    other(OtherKnobs)
    names: dict[str, Any] = {}
    exec(parameters_source("any"), names)
    assert names["sizes"] == [1, 2]
    assert run_parameters("any", names) == AT_DEFAULTS


@pytest.mark.parametrize(
    ("name", "wrong", "allowed"),
    [
        ("prefetch", 999, "prefetch=999 is not allowed; allowed: whole number, 0 to 64"),
        ("prefetch", 1.5, "prefetch=1.5 is not allowed; allowed: whole number"),
        ("prefetch", "[1, 2]", r"prefetch='\[1, 2\]' is not allowed; allowed: whole number"),
        ("prefetch", None, "prefetch=None is not allowed"),
        ("pinned", "maybe", "pinned='maybe' is not allowed; allowed: "),
        ("model", "huge", r"model='huge' is not allowed; allowed: small \| large"),
        ("seconds", "soon", "seconds='soon' is not allowed; allowed: number"),
        ("seconds", float("nan"), "seconds=nan is not allowed"),
        ("steps", 2.5, "steps=2.5 is not allowed; allowed: whole number"),
        ("device", None, "device=None is not allowed; allowed: text"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_what_is_allowed(name: str, wrong: Any, allowed: str) -> None:
    with pytest.raises(KnobError, match=allowed):
        run_parameters("pipeline", namespace(**{name: wrong}))


def test_a_parameter_that_was_never_set_is_named() -> None:
    names = namespace()
    del names["workers"]
    with pytest.raises(KnobError, match="has not set workers: run its parameters cell first"):
        run_parameters("pipeline", names)


def test_an_unknown_name_that_papermill_injected_is_refused() -> None:
    sources = ["", "prefetchh = 1", "# Parameters\nprefetch = 4\nprefetsh = 4\n"]
    with pytest.raises(KnobError, match="there is no parameter 'prefetsh'; allowed: device, seconds"):
        run_parameters("pipeline", namespace(In=sources))


def test_names_of_other_cells_are_the_readers_own() -> None:
    sources = ["", "import labkit", "mine = 1", "# Parameters\nprefetch = 4\n", "%time not python"]
    assert run_parameters("pipeline", namespace(In=sources, mine=1, prefetch=4))["prefetch"] == 4


def test_without_an_experiment_there_are_only_the_four_running_parameters() -> None:
    names: dict[str, Any] = {}
    exec(parameters_source(None), names)
    assert run_parameters(None, {**names, "steps": "10"}) == {**AT_DEFAULTS, "steps": 10}


def notebook_with(tmp_path: Path, source: str) -> Path:
    cell = new_code_cell(source, metadata={"tags": ["parameters"]})
    path = tmp_path / "a.ipynb"
    nbformat.write(new_notebook(cells=[cell], metadata={"labkit": {"experiment": "pipeline"}}), path)
    return path


def test_a_cell_that_drifted_is_told_by_its_line_and_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook_with(tmp_path, parameters_source("pipeline").replace("prefetch = 2", "prefetch = 3"))
    drift = check_parameters(path)
    assert drift is not None
    assert "a.ipynb differs from the model: prefetch = 2 " in drift
    assert parameters.main([str(path), str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: written anew\n{path}: up to date\n"
    assert check_parameters(path) is None


def test_a_line_too_many_is_drift(tmp_path: Path) -> None:
    drift = check_parameters(notebook_with(tmp_path, parameters_source("pipeline") + "\nextra = 1"))
    assert drift is not None
    assert drift.endswith("lines too many, or in another order")


def test_a_notebook_without_a_parameters_cell_says_so(tmp_path: Path) -> None:
    path = tmp_path / "b.ipynb"
    nbformat.write(new_notebook(), path)
    assert check_parameters(path) == f'{path} has no cell tagged "parameters"'
    with pytest.raises(ExperimentError, match='no cell tagged "parameters" to write'):
        write_parameters(path)


@pytest.mark.parametrize(("content", "words"), [(None, "there is no notebook"), ("not json", "cannot be read as a notebook")])
def test_a_file_that_is_no_notebook_is_an_error_in_words(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "c.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ExperimentError, match=words):
        check_parameters(path)
