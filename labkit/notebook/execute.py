"""Run a notebook headless: papermill, with wrong parameters refused up front and a failing cell told in words.

A notebook's end proves nothing about its run: that is read from the run's record. The notebooks end with
`run.checked()`, so that they fail where the record says so.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.errors import KnobError, RunFailed, StoreError
from labkit.notebook.cell import assigned_names, experiment_of, parameters_cell, read_notebook
from labkit.notebook.parameters import refuse_unknown, typed

KERNEL = "python3"
START_TIMEOUT_S = 180
_QUIET = ["--IPKernelApp.log_level=ERROR"]  # else the kernel warns on our stderr that its port is on loopback
_ANYTHING_PLAIN = "text, finite numbers, true, false, none, and lists of these"


def execute_notebook(
    notebook: Path, output: Path, parameters: Mapping[str, Any] | None = None, *, progress: bool = True
) -> Path:
    """Run `notebook` with these parameters, keep the executed one as `output`, and return that path.

    The notebook runs in the caller's working folder. Raises KnobError for a parameter that the notebook does not have
    and for a value that is not allowed, StoreError where `output` cannot be written, RunFailed where the
    notebook cannot be read or a cell fails.
    """
    notebook, output = Path(notebook), Path(output)
    values = checked_parameters(notebook, parameters or {})
    _make_room(notebook, output)
    with _told_in_words(notebook, output):
        _papermill(notebook, output, values, progress)
    return output


def checked_parameters(notebook: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as plain values. Raises KnobError for an unknown name or a value that is not allowed."""
    content = read_notebook(notebook)
    cell = parameters_cell(content)
    refuse_unknown(parameters, [] if cell is None else assigned_names(cell.source))
    values = {name: plain_value(name, value) for name, value in parameters.items()}
    if experiment_of(content) is not None:
        typed(experiment_of(content), values)
    return values


def plain_value(name: str, value: Any) -> Any:
    """A parameter as papermill can write it down: tuples become lists, paths text, numpy scalars numbers.

    Raises KnobError for what has no plain form.
    """
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain_value(name, part) for part in value]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise KnobError(f"{name}={value!r} cannot be given to a notebook; allowed: {_ANYTHING_PLAIN}")


def _make_room(notebook: Path, output: Path) -> None:
    if output.exists() and output.samefile(notebook):
        raise StoreError(f"{output} is the notebook itself; name another file for the executed one")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
    except OSError as error:
        raise StoreError(f"cannot write the executed notebook to {output}: {error.strerror or error}") from error


def _papermill(notebook: Path, output: Path, parameters: dict[str, Any], progress: bool) -> None:
    import papermill  # takes seconds

    papermill.execute_notebook(
        _without_fields(notebook),
        _without_fields(output),
        parameters=parameters,
        kernel_name=KERNEL,
        progress_bar=progress,
        start_timeout=START_TIMEOUT_S,
        extra_arguments=_QUIET,
    )


def _without_fields(path: Path) -> str:
    """A path that papermill takes as it is: it would replace what stands between braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def _told_in_words(notebook: Path, output: Path) -> Iterator[None]:
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        yield
    except PapermillExecutionError as error:
        where = f"cell [{error.exec_count}] of {notebook.name} failed"
        raise RunFailed(f"{where}: {error.ename}: {error.evalue}; see {output}") from error
    except DeadKernelError as error:
        raise RunFailed(f"{notebook.name} did not end: its kernel died; see {output}") from error
    except NoSuchKernel as error:
        raise RunFailed(f"there is no Jupyter kernel {KERNEL!r} here: pip install ipykernel") from error
