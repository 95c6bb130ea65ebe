"""Flags that several commands share, and the flags that an experiment's knobs give."""

import argparse
from collections.abc import Sequence
from typing import Any

from labkit.errors import KnobError
from labkit.experiments import experiment, experiments
from labkit.knobs import Knobs
from labkit.knobs.text import value_text


def parser(command: str, description: str, **more: Any) -> argparse.ArgumentParser:
    """A parser for one command that never guesses at shortened flags."""
    return argparse.ArgumentParser(prog=f"labkit {command}", description=description, allow_abbrev=False, **more)


def add_json(flags: argparse.ArgumentParser) -> None:
    """--json"""
    flags.add_argument("--json", action="store_true", help="print one JSON object on stdout, nothing else")


def add_out(flags: argparse.ArgumentParser, default: str = "runs") -> None:
    """--out"""
    flags.add_argument("--out", default=default, metavar="DIR", help=f"runs folder (default: {default})")


def add_running(flags: argparse.ArgumentParser, default_s: float) -> None:
    """--device, --seconds, --steps, --warmup"""
    flags.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N, simulated:MACHINE (default: auto)")
    flags.add_argument("--seconds", type=float, help=f"measure each run for this long, warm-up not counted (default: {default_s:g})")
    flags.add_argument("--steps", type=int, help="measure this many steps, warm-up not counted")
    flags.add_argument("--warmup", type=int, default=8, help="steps at the start that no metric counts (default: 8)")


def add_knobs(flags: argparse.ArgumentParser, knobs: type[Knobs], without: Sequence[str] = ()) -> None:
    """One flag a knob, with its range and default in the help; values are text until the model reads them."""
    group = flags.add_argument_group("knobs (* live: may be turned while it runs)")
    for name, info in knobs.model_fields.items():
        if name in without:
            continue
        dashed = "--" + name.replace("_", "-")
        spellings = [dashed] if "_" not in name else [dashed, "--" + name]
        star = "* " if knobs.is_live(name) else ""
        words = f"{star}{info.description} [{knobs.allowed(name)}; default {value_text(info.default)}]"
        bare = {"nargs": "?", "const": "true"} if info.annotation is bool else {}
        group.add_argument(*spellings, dest=f"knob_{name}", metavar="V", help=words.replace("%", "%%"), **bare)


def knob_values(namespace: argparse.Namespace) -> dict[str, str]:
    """The knobs that were given, as text."""
    given = vars(namespace).items()
    return {name.removeprefix("knob_"): value for name, value in given if name.startswith("knob_") and value is not None}


def parse_with_experiment(
    flags: argparse.ArgumentParser, arguments: Sequence[str], without: Sequence[str] = ()
) -> argparse.Namespace:
    """Parse a command whose first word is an experiment: its knobs become flags, but for those that the command has itself."""
    flags.add_argument("experiment", help=f"{', '.join(experiments())}; with it, --help lists its knobs")
    name = next((word for word in arguments if word in experiments()), None)
    if name is not None:
        add_knobs(flags, experiment(name).knobs, without)
    elif arguments and not arguments[0].startswith("-"):
        experiment(arguments[0])  # raises: there is none of this name
    return flags.parse_args(arguments)


def settings(words: Sequence[str]) -> dict[str, str]:
    """`["prefetch=4", "workers=2,pinned=false"]` as {"prefetch": "4", ...}. Raises KnobError for another form."""
    values: dict[str, str] = {}
    for part in (part for word in words for part in word.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise KnobError(f"{part!r} is not of the form knob=value")
        values[name.strip()] = value.strip()
    return values
