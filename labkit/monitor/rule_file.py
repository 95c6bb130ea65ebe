"""Alert rules from a JSON file, read strictly: what is not understood is refused before anything runs.

    {"schema_version": 1, "alerts": [
      {"metric": "pipeline_stall", "when": "above", "warning": 10, "critical": 20, "unit": "%", "level": "warning"}]}
"""

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from labkit.errors import AlertError
from labkit.monitor.rule import Rule, check_distinct

SCHEMA_VERSION = 1
EXAMPLE = Path(__file__).with_name("alerts.json")
"""A file that comes with labkit, to copy from."""

_KEYS = tuple(field.name for field in fields(Rule))
_NEEDED = ("metric", "when", "warning", "critical")


def rules_of(alerts: str | Path | Iterable[Rule] | None) -> tuple[Rule, ...]:
    """The rules that somebody gave: a file of them, rules, or None for none. Raises AlertError."""
    if alerts is None:
        return ()
    if isinstance(alerts, str | Path):
        return read_rules(alerts)
    if not isinstance(alerts, Iterable):
        raise AlertError(f"alerts={alerts!r} is not allowed; give the path of a JSON file, or Rule objects")
    rules = tuple(alerts)
    strange = next((rule for rule in rules if not isinstance(rule, Rule)), None)
    if strange is not None:
        raise AlertError(f"alerts has {strange!r} in it; give the path of a JSON file, or Rule objects")
    check_distinct(rules)
    return rules


def read_rules(path: str | Path) -> tuple[Rule, ...]:
    """The rules of a file, in order. Raises AlertError, which says where in the file what is wrong."""
    try:
        data = json.loads(_text(path), object_pairs_hook=_once, parse_constant=_refuse_constant)
        rules = tuple(_rule(number, entry) for number, entry in enumerate(_entries(data), 1))
        check_distinct(rules)
    except AlertError as error:
        raise AlertError(f"alerts file {path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise AlertError(f"alerts file {path}: it is not JSON: {error}") from error
    return rules


def _text(path: str | Path) -> str:
    if not str(path).strip():
        raise AlertError("no file is named")
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise AlertError(f"it cannot be read: {error.strerror or error}; an example is {EXAMPLE}") from error
    except ValueError as error:  # not UTF-8, or a name that no file can have
        raise AlertError(f"it cannot be read as text: {error}") from error


def _entries(data: Any) -> list[Any]:
    """The list of alerts in the file's object, after its version has been checked."""
    if not isinstance(data, dict):
        raise AlertError(f"an object with schema_version and alerts is expected, not {_kind(data)}")
    _check_keys(data, ("schema_version", "alerts"), ("schema_version", "alerts"))
    version = data["schema_version"]
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise AlertError(f"schema_version={version!r} is not known: this labkit reads {SCHEMA_VERSION}")
    if not isinstance(data["alerts"], list) or not data["alerts"]:
        raise AlertError("alerts must be a list of one or more rules")
    return data["alerts"]


def _rule(number: int, entry: Any) -> Rule:
    try:
        if not isinstance(entry, dict):
            raise AlertError(f"an object is expected, not {_kind(entry)}")
        _check_keys(entry, _KEYS, _NEEDED)
        return Rule(**entry)
    except AlertError as error:
        raise AlertError(f"alert {number}: {error}") from None


def _check_keys(data: dict[str, Any], allowed: tuple[str, ...], needed: tuple[str, ...]) -> None:
    unknown = next((key for key in data if key not in allowed), None)
    if unknown is not None:
        raise AlertError(f"there is no key {unknown!r}; allowed: {', '.join(allowed)}")
    missing = [key for key in needed if key not in data]
    if missing:
        raise AlertError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys all differ: JSON itself would take the last of two."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise AlertError(f"the key {key!r} is there twice in one object")
        found[key] = value
    return found


def _refuse_constant(name: str) -> None:
    raise AlertError(f"{name} is not a finite number")


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"{value!r}"
