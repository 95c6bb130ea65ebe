"""`tenants.yaml`: who shares the server, read strictly."""

import difflib
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from labkit.data.strict_yaml import load_strict
from labkit.errors import DataError
from labkit.schedule.arrivals import Shape
from labkit.schedule.tenants import Tenant

MOST = 64


class _Entry(BaseModel):
    """One entry of the file. Times in milliseconds."""

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)

    name: str = Field(min_length=1, max_length=40)
    weight: float = Field(1.0, gt=0, le=1e9)
    priority: int = Field(0, ge=-1000, le=1000)
    rate: float = Field(ge=0.01, le=1_000_000)
    arrivals: Shape = "poisson"
    deadline: float | None = Field(None, ge=0, le=3_600_000)
    slo: float | None = Field(None, ge=0.001, le=3_600_000)
    patience: float | None = Field(None, ge=0, le=3_600_000)
    batchable_with: Literal["all", "none"] | list[str] = "all"


def read_tenants(path: Path) -> tuple[Tenant, ...]:
    """The tenants of a file, in its order. `batchable_with` is made symmetric: both must allow it.

    Raises DataError, which names the file, the entry, the key, what it is and what is allowed.
    """
    try:
        entries = load_strict(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"tenants={str(path)!r} cannot be read as YAML: {getattr(error, 'strerror', None) or error}") from error
    return tenants_of(entries, str(path))


def tenants_of(entries: Any, where: str) -> tuple[Tenant, ...]:
    """Tenants from plain data. Raises DataError."""
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST:
        found = f"a list of {len(entries)}" if isinstance(entries, list) else f"a {type(entries).__name__}"
        raise DataError(f"tenants={where!r} holds {found}; a list of 1 to {MOST} tenants is needed, each with at least a name and a rate")
    read = [_entry(entry, number, where) for number, entry in enumerate(entries, 1)]
    names = [entry.name for entry in read]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"tenants={where!r}: the name {twice!r} is there {names.count(twice)} times; each tenant needs a name of its own")
    for number, entry in enumerate(read, 1):
        unknown = [] if isinstance(entry.batchable_with, str) else [name for name in entry.batchable_with if name not in names]
        if unknown:
            raise DataError(f"tenants={where!r}, entry {number} ({entry.name}): batchable_with names {unknown[0]!r}, which is no tenant; there are: {', '.join(names)}")
    wanted = {entry.name: _partners(entry, names) for entry in read}
    return tuple(_tenant(entry, wanted) for entry in read)


def _entry(entry: Any, number: int, where: str) -> _Entry:
    if not isinstance(entry, dict):
        raise DataError(f"tenants={where!r}, entry {number} is a {type(entry).__name__}; keys and values are needed: {', '.join(_Entry.model_fields)}")
    try:
        return _Entry.model_validate(entry)
    except ValidationError as errors:
        first = errors.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "?"
        who = f"tenants={where!r}, entry {number} ({entry.get('name', 'no name')})"
        if first["type"] == "extra_forbidden":
            close = difflib.get_close_matches(key, _Entry.model_fields, 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise DataError(f"{who}: unknown key {key!r}; there are: {', '.join(_Entry.model_fields)}{meant}") from None
        if first["type"] == "missing":
            raise DataError(f"{who}: {key!r} is missing") from None
        raise DataError(f"{who}: {key}={first['input']!r} is not allowed: {_allowed(key)}") from None


@cache
def _allowed(key: str) -> str:
    """What a key may hold, in words."""
    known = {
        "name": "1 to 40 characters", "weight": "a number more than 0, at most 1e9", "priority": "a whole number from -1000 to 1000",
        "rate": "0.01 to 1,000,000 requests per second", "arrivals": "constant, poisson, bursty, ramp or step",
        "deadline": "0 to 3,600,000 ms, or none", "slo": "0.001 to 3,600,000 ms, or none", "patience": "0 to 3,600,000 ms, or none",
        "batchable_with": "all, none, or a list of names of tenants",
    }  # fmt: skip
    return known[key]


def _partners(entry: _Entry, names: list[str]) -> set[str]:
    if isinstance(entry.batchable_with, str):
        return set(names) if entry.batchable_with == "all" else {entry.name}
    return {entry.name, *entry.batchable_with}


def _tenant(entry: _Entry, wanted: dict[str, set[str]]) -> Tenant:
    both = frozenset(name for name in wanted[entry.name] if entry.name in wanted[name])
    return Tenant(
        entry.name, entry.weight, entry.priority, entry.rate, entry.arrivals, entry.deadline, entry.slo, entry.patience, both
    )
