"""What the panel shows, as a line to copy: for the shell, for papermill, for a notebook cell. Each repeats the same run.

A form that cannot say it is a comment that says why, in place of a line that would run something else.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.device.machine import load_machine
from labkit.errors import KnobError, MachineError
from labkit.experiments import experiments
from labkit.knobs import Knobs
from labkit.panel.machines import changed_words, figures_set

NOTEBOOKS: Mapping[str, str] = {
    "pipeline": "notebooks/01_pipelined_training.ipynb",
    "batching": "notebooks/03_dynamic_batching.ipynb",
    "offload": "notebooks/04_offload.ipynb",
}
"""The notebook of an experiment."""

OWN = "mine"
"""What a workload of the user's own is called: the variable that `labkit.workload(…)` was assigned to."""


@dataclass(frozen=True)
class CopyAs:
    """One run in three forms, a line each."""

    cli: str
    papermill: str
    python: str


def copy_as(
    experiment_name: str,
    knobs: Knobs,
    device: str,
    seconds: float | None,
    machine_changes: Mapping[str, float],
    base: str | None = None,
) -> CopyAs:
    """The lines that repeat a run; only knobs that are not at their defaults are named.

    device           as `labkit.run` takes it
    seconds          how long it measures; None is left to the default
    machine_changes  figures of the simulated machine that were changed, as `labkit.panel.machines.apply` takes them
    base             the machine that they change; None is the one that `device` names

    Raises MachineError for changes of no machine, or that it cannot take.
    """
    turned = {name: value for name, (value, _) in knobs.differences(type(knobs)()).items()}
    machine = _Changed.of(machine_changes, device, base)
    own = experiment_name not in experiments()
    python = _python(OWN if own else _literal(experiment_name), turned, device, seconds, machine)
    why_not = _why_only_python(own, machine)
    if why_not:
        return CopyAs(f"# the command line cannot say it: {why_not}", f"# papermill cannot say it: {why_not}", python)
    return CopyAs(
        _cli(experiment_name, knobs, turned, device, seconds), _papermill(experiment_name, knobs, turned, device, seconds), python
    )


@dataclass(frozen=True)
class _Changed:
    """A machine with changes: its name, every figure that is set, and what that is in words."""

    name: str
    figures: Mapping[str, float]
    words: str

    @classmethod
    def of(cls, changes: Mapping[str, float], device: str, base: str | None) -> "_Changed | None":
        if not changes:
            return None
        kind, _, name = device.partition(":")
        name = base or (name if kind == "simulated" else "")
        if not name:
            raise MachineError(f"figures of a machine can be changed where it is simulated; this runs on {device}")
        machine = load_machine(name)
        figures = figures_set(machine, changes)
        return cls(name, figures, changed_words(machine, changes)) if figures else None


def _why_only_python(own: bool, machine: _Changed | None) -> str:
    if own:
        return "a workload of your own is Python"
    if machine is not None:
        return f"it takes machines as they are, and this is {machine.words}"
    return ""


def _cli(name: str, knobs: Knobs, turned: Mapping[str, Any], device: str, seconds: float | None) -> str:
    unsayable = _unsayable(knobs, turned)
    if unsayable:
        return f"# the command line cannot say {unsayable}"
    words = ["labkit", "run", name, *_flag("device", device)]
    for knob, value in turned.items():
        words += _flag(knob.replace("_", "-"), _text(value))
    if seconds is not None:
        words += _flag("seconds", _number(seconds))
    return shlex.join(words)


def _flag(name: str, text: str) -> list[str]:
    """`--prefetch 4`; a value that looks like a flag is tied to its own."""
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]


def _papermill(name: str, knobs: Knobs, turned: Mapping[str, Any], device: str, seconds: float | None) -> str:
    if name not in NOTEBOOKS:
        return f"# papermill: there is no notebook of {name}"
    unsayable = _unsayable(knobs, turned)
    if unsayable:
        return f"# papermill cannot say {unsayable}"
    words = ["papermill", NOTEBOOKS[name], "out.ipynb"]
    for knob, value in turned.items():
        words += [_parameter_flag(value), knob, _text(value)]
    words += ["-p", "device", device]
    if seconds is not None:
        words += ["-p", "seconds", _number(seconds)]
    return shlex.join(words)


def _parameter_flag(value: Any) -> str:
    """`-p`, or `-r` for a text or a list that papermill would take for something else: it reads 007 as 7."""
    text = _text(value)
    mistaken = _is_number(text) or text in ("True", "False", "None")
    return "-r" if isinstance(value, str | list | tuple) and mistaken else "-p"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _python(first: str, turned: Mapping[str, Any], device: str, seconds: float | None, machine: _Changed | None) -> str:
    named = {"device": _literal(device)} if machine is None else {"machine": _machine(machine)}
    named |= {knob: _literal(value) for knob, value in turned.items()}
    if seconds is not None:
        named["seconds"] = _number(seconds)
    return f"labkit.run({', '.join([first, *(f'{name}={value}' for name, value in named.items())])})"


def _machine(machine: _Changed) -> str:
    figures = ", ".join(f"{figure}={value!r}" for figure, value in machine.figures.items())
    return f'labkit.device.machine.load_machine({_literal(machine.name)}).with_figures("what-if", {figures})'


def _literal(value: Any) -> str:
    """A value as Python source, texts in double quotes."""
    source = repr(value)
    plain = isinstance(value, str) and source[0] == "'" and '"' not in source
    return f'"{source[1:-1]}"' if plain else source


def _unsayable(knobs: Knobs, turned: Mapping[str, Any]) -> str:
    """The first knob whose value does not come back from text, as it would be written in Python; "" where all do."""
    for knob, value in turned.items():
        try:
            back = getattr(type(knobs).parse({**turned, knob: _text(value)}), knob)
        except KnobError:
            back = None
        if back != value or "\0" in _text(value):
            return f"{knob}={value!r}"
    return ""


def _text(value: Any) -> str:
    """A value as a shell gives it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(_text(part) for part in value)
    return str(value)


def _number(value: float) -> str:
    """`5` for 5.0."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
