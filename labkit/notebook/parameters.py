"""The parameters of a notebook: from the knob model to the cell that papermill reads, and from the cell to labkit.run.

    parameters_source("pipeline")           the text of the cell
    run_parameters("pipeline", globals())   its values, typed, as keyword arguments of labkit.run

After the model has changed, `python -m labkit.notebook.parameters notebooks/*.ipynb` writes the cells anew. A
notebook whose metadata name no experiment has a cell with only what every experiment takes.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labkit.errors import ExperimentError, KnobError
from labkit.experiments import experiment
from labkit.knobs import Knobs, knob
from labkit.notebook.cell import TAG, assigned_names, experiment_of, parameters_cell, read_notebook

_INJECTED = "# Parameters\n"  # how the cell that papermill adds begins


class Running(Knobs):
    """What every experiment takes beside its knobs, with the notebook's defaults."""

    device: str = knob("auto", "auto, cpu, cuda, cuda:N or simulated:MACHINE")
    seconds: float | None = knob(5.0, "how long it measures, warm-up not counted")
    steps: int | None = knob(None, "how many steps it measures at most, warm-up not counted")
    out: str | None = knob("runs", "the folder that the run is saved in; None keeps it in memory")


def parameters_source(experiment_name: str | None) -> str:
    """The source of the parameters cell; for None, without the knobs of an experiment.

    No annotations, and no equals sign in a comment: `papermill --help-notebook` drops such lines.
    """
    parts = {"How it runs": _assignments(Running)}
    if experiment_name is not None:
        title = "Knobs (live: may be turned while it runs; cold: restarts the worker)"
        parts[title] = _assignments(experiment(experiment_name).knobs)
    width = max(len(assignment) for part in parts.values() for assignment in part)
    return "\n\n".join(_block(title, part, width) for title, part in parts.items())


def run_parameters(experiment_name: str | None, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters among a notebook's globals(), as keyword arguments of labkit.run: device, seconds, steps, out,
    and the knobs that are not at their defaults.

    Raises KnobError for a value that is not allowed, a parameter that the notebook has not set, and a name that
    papermill passed and that is none.
    """
    names = parameter_names(experiment_name)
    refuse_unknown(_injected_names(namespace), names)
    missing = [name for name in names if name not in namespace]
    if missing:
        raise KnobError(f"the notebook has not set {', '.join(missing)}: run its parameters cell first")
    return typed(experiment_name, {name: namespace[name] for name in names})


def typed(experiment_name: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in any spelling as keyword arguments of labkit.run; those not given have the notebook's defaults.

    Raises KnobError for a value that is not allowed.
    """
    model = _knobs(experiment_name)
    running = Running.parse({name: value for name, value in values.items() if name in Running.model_fields})
    knobs = model.parse({name: value for name, value in values.items() if name not in Running.model_fields})
    return {**running.model_dump(), **{name: value for name, (value, _) in knobs.differences(model()).items()}}


def parameter_names(experiment_name: str | None) -> list[str]:
    """What a notebook of this experiment may be given."""
    return [*Running.model_fields, *_knobs(experiment_name).model_fields]


def refuse_unknown(given: Iterable[str], allowed: Iterable[str]) -> None:
    """Raises KnobError for a name that is not among the allowed ones."""
    allowed = list(allowed)
    for name in given:
        if name not in allowed:
            raise KnobError(f"there is no parameter {name!r}; allowed: {', '.join(allowed) or 'none'}")


def check_parameters(notebook: Path) -> str | None:
    """How a notebook's parameters cell differs from the model, in words; None where it does not."""
    content = read_notebook(notebook)
    cell = parameters_cell(content)
    if cell is None:
        return f'{notebook} has no cell tagged "{TAG}"'
    expected = parameters_source(experiment_of(content))
    if cell.source == expected:
        return None
    have, want = cell.source.splitlines(), expected.splitlines()
    first = next((line for line in want if line not in have), "lines too many, or in another order")
    return f"the parameters cell of {notebook} differs from the model: {first}"


def write_parameters(notebook: Path) -> None:
    """Write a notebook's parameters cell anew from the model. Raises ExperimentError where it has none."""
    import nbformat

    content = read_notebook(notebook)
    cell = parameters_cell(content)
    if cell is None:
        raise ExperimentError(f'{notebook} has no cell tagged "{TAG}" to write the parameters into')
    cell.source = parameters_source(experiment_of(content))
    nbformat.write(content, notebook)


def main(arguments: list[str]) -> int:
    """Write the parameters cells of these notebooks; exit code 2 where none is named."""
    if not arguments:
        print("usage: python -m labkit.notebook.parameters NOTEBOOK…", file=sys.stderr)
        return 2
    for notebook in map(Path, arguments):
        drift = check_parameters(notebook)
        write_parameters(notebook)
        print(f"{notebook}: {'written anew' if drift else 'up to date'}")
    return 0


def _knobs(experiment_name: str | None) -> type[Knobs]:
    return Knobs if experiment_name is None else experiment(experiment_name).knobs


def _block(title: str, part: Mapping[str, str], width: int) -> str:
    return "\n".join([f"# {title}", *(f"{assignment:<{width}}  # {words}" for assignment, words in part.items())])


def _assignments(knobs: type[Knobs]) -> dict[str, str]:
    """`name = default` → its comment, for each knob of a model."""
    return {f"{name} = {_literal(info.default)}": _words(knobs, name) for name, info in knobs.model_fields.items()}


def _words(knobs: type[Knobs], name: str) -> str:
    kind = "" if knobs is Running else "; live" if knobs.is_live(name) else "; cold"
    words = f"{knobs.model_fields[name].description} [{knobs.allowed(name)}{kind}]"
    if "=" in words or "\n" in words:
        raise ExperimentError(f"the help of knob {name!r} must be one line without '=', for papermill: {words!r}")
    return words


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _injected_names(namespace: Mapping[str, Any]) -> list[str]:
    """The names that papermill passed, from the source of the cell that it added (IPython keeps sources in `In`)."""
    sources = [source for source in namespace.get("In", ()) if source.startswith(_INJECTED)]
    return [name for source in sources for name in assigned_names(source)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
