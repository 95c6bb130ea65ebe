"""From a policy file to a `Policy`, or to words: the file, the key, its value, what is allowed, and what was perhaps meant.

A policy is named by its path, or by the name of one in the data sets' `policies` folder.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from labkit.allocation.policy import Policy, Priority, PriorityClass, Reservation, Scaling
from labkit.data.locate import datasets_root
from labkit.data.strict_yaml import load_strict
from labkit.errors import DataError
from labkit.knobs.text import shown

LARGEST_BYTES = 64 * 1024
MOST_CORES = 4096

_SHARE = "a share: more than 0, at most 1"
_ALLOWED = {
    "reservation": "keys and values",
    "reservation.gpu_memory": _SHARE,
    "reservation.gpu_compute": _SHARE,
    "reservation.cores": f"how many cores (1 to {MOST_CORES}), or a list of their numbers (0 or more, each once)",
    "reservation.cache_ways": "a whole number of ways, 1 to 64",
    "scaling": "a list of at most 2 rules, each with at least resource, high and low",
    "scaling.resource": "gpu_compute or cores",
    "scaling.by": "queue or utilization",
    "scaling.high": "a number more than 0, at most 1,000,000",
    "scaling.low": "a number of 0 or more, at most 1,000,000",
    "scaling.step": _SHARE,
    "scaling.minimum": _SHARE,
    "scaling.maximum": _SHARE,
    "scaling.period_ms": "1 to 3,600,000 ms",
    "scaling.cooldown_ms": "0 to 3,600,000 ms",
    "priority": "keys and values, with at least classes",
    "priority.classes": "a list of 1 to 64 classes, each with a name and a level",
    "priority.classes.name": "1 to 40 characters",
    "priority.classes.level": "a whole number from -1000 to 1000",
    "priority.ageing_ms": "1 to 3,600,000 ms, or none",
}
_TABLES: dict[str, type[BaseModel]] = {
    "": Policy, "reservation": Reservation, "scaling": Scaling, "priority": Priority, "priority.classes": PriorityClass,
}  # fmt: skip


@dataclass(frozen=True)
class NamedPolicy:
    """A policy, and the name that it goes by in words."""

    name: str
    policy: Policy


def shipped_policies() -> list[str]:
    """The names of the policies that labkit ships; [] where its data sets are not found."""
    try:
        return sorted(path.stem for path in (datasets_root() / "policies").glob("*.yaml"))
    except DataError:
        return []


def read_policy(name: str) -> NamedPolicy:
    """The policy of this path, or the shipped one of this name. Raises DataError."""
    path = _located(name)
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise DataError(f"allocation={str(path)!r} has {size:,} bytes; at most {LARGEST_BYTES:,} are allowed")
        data = load_strict(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"allocation={str(path)!r} cannot be read as YAML: {getattr(error, 'strerror', None) or error}") from error
    return NamedPolicy(path.stem, policy_of(data, str(path)))


def policy_content(name: str) -> dict[str, Any] | None:
    """What the policy of this path or name says now, as plain data; None where it cannot be read."""
    try:
        return read_policy(name).policy.model_dump()
    except DataError:
        return None


def policy_of(data: Any, where: str) -> Policy:
    """A policy from plain data. Raises DataError."""
    start = f"allocation={where!r}"
    if not isinstance(data, dict):
        found = "is empty" if data is None else f"holds a {type(data).__name__}"
        raise DataError(f"{start} {found}; a policy needs keys and values: {', '.join(Policy.model_fields)}")
    try:
        policy = Policy.model_validate(data)
    except ValidationError as errors:
        raise DataError(f"{start}: {_words(errors)}") from None
    for wrong in (*_wrong_reservation(policy), *_wrong_scaling(policy), *_wrong_classes(policy)):
        raise DataError(f"{start}: {wrong}")
    if not policy.reservation.wanted and not policy.scaling and policy.priority is None:
        raise DataError(f"{start} asks for nothing; give at least one of: {', '.join(Policy.model_fields)}")
    return policy


def _located(name: str) -> Path:
    path = Path(name).expanduser()
    try:
        if path.exists():
            return path
    except (OSError, ValueError) as error:  # a name that no file can have
        raise DataError(f"allocation={shown(name)} cannot be read: {error}") from error
    shipped = shipped_policies()
    stem = name.removesuffix(".yaml")
    if stem in shipped:
        return datasets_root() / "policies" / f"{stem}.yaml"
    close = difflib.get_close_matches(stem, shipped, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise DataError(f"allocation={shown(name)}: there is no such file, and no policy of that name; there are: {', '.join(shipped) or 'none'}{meant}")


def _words(errors: ValidationError) -> str:
    """The first error: which key, what it is, what is allowed."""
    first = next((error for error in errors.errors() if error["type"] == "extra_forbidden"), errors.errors()[0])
    names = [str(part) for part in first["loc"] if isinstance(part, str) and part not in ("int", "list[int]")]
    where = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in first["loc"] if str(part) not in ("int", "list[int]"))
    where, key = where.removeprefix("."), ".".join(names)
    table = _TABLES.get(".".join(names[:-1]), Policy)
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(names[-1], table.model_fields, 1) if names else []
        meant = f"; did you mean {close[0]!r}?" if close else ""
        return f"unknown key {where!r}={shown(first['input'])}; there are: {', '.join(table.model_fields)}{meant}"
    if first["type"] == "missing":
        return f"{where!r} is missing; it is {_ALLOWED.get(key, 'needed')}"
    return f"{where}={shown(first['input'])} is not allowed; allowed: {_ALLOWED.get(key, first['msg'])}"


def _wrong_reservation(policy: Policy) -> list[str]:
    cores = policy.reservation.cores
    if cores is None:
        return []
    if isinstance(cores, int):
        good = 1 <= cores <= MOST_CORES
    else:
        good = bool(cores) and len(set(cores)) == len(cores) and all(0 <= core < MOST_CORES for core in cores)
    return [] if good else [f"reservation.cores={shown(cores)} is not allowed; allowed: {_ALLOWED['reservation.cores']}"]


def _wrong_scaling(policy: Policy) -> list[str]:
    wrong = []
    for number, rule in enumerate(policy.scaling, 1):
        where = f"scaling[{number}]"
        if rule.minimum > rule.maximum:
            wrong.append(f"{where}: minimum={rule.minimum:g} is more than maximum={rule.maximum:g}; allowed: at most as much")
        if rule.low >= rule.high:
            wrong.append(f"{where}: low={rule.low:g} is not below high={rule.high:g}; allowed: less, or the share would go up and down")
        if rule.by == "utilization" and rule.high > 1:
            wrong.append(f"{where}: high={rule.high:g} is not allowed by utilization; allowed: a share, at most 1")
    resources = [rule.resource for rule in policy.scaling]
    wrong += [f"scaling: {name} has {resources.count(name)} rules; allowed: one" for name in get_args(Scaling.model_fields["resource"].annotation) if resources.count(name) > 1]
    return wrong


def _wrong_classes(policy: Policy) -> list[str]:
    names = [] if policy.priority is None else [each.name for each in policy.priority.classes]
    return [f"priority.classes: the name {name!r} is there {names.count(name)} times; allowed: once" for name in names if names.count(name) > 1]
