"""Text to typed values: what a shell, papermill or JSON gives becomes what a knob declares, or is refused.

papermill passes `-p flag true` as text, `-p n 1e3` as a float and `-p id 007` as 7; a shell passes text only.
One rule for all of them: the declared type decides, nothing is guessed beyond it.
"""

import json
import math
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from labkit.errors import KnobError
from labkit.knobs.text import shown

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_NONE = {"none", "null", "~"}
_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def type_words(annotation: Any) -> str:
    """A declared type in words, for messages and help."""
    if is_optional(annotation):
        return f"{type_words(without_none(annotation))}, or none"
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if get_origin(annotation) in (tuple, list):
        return f"list of {type_words(get_args(annotation)[0])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def coerce(name: str, value: Any, annotation: Any) -> Any:
    """`value` as the type that `annotation` declares. Raises KnobError where it cannot be read as one."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()  # a numpy scalar
    if is_optional(annotation):
        if value is None or (isinstance(value, str) and value.strip().lower() in _NONE):
            return None
        return coerce(name, value, without_none(annotation))
    if value is None:
        raise refused(name, value, type_words(annotation))
    if get_origin(annotation) is Literal:
        return _choice(name, value, annotation)
    if get_origin(annotation) in (tuple, list):
        return _sequence(name, value, annotation)
    reader = {bool: _bool, int: _int, float: _float, str: _text}.get(annotation)
    return value if reader is None else reader(name, value)


def refused(name: str, value: Any, allowed: str) -> KnobError:
    """The error for a value that a knob cannot take."""
    return KnobError(f"{name}={shown(value)} is not allowed; allowed: {allowed}")


def is_optional(annotation: Any) -> bool:
    """Whether a declared type includes None."""
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def without_none(annotation: Any) -> Any:
    """A declared type, None left out."""
    return next(part for part in get_args(annotation) if part is not NoneType) if is_optional(annotation) else annotation


def _bool(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise refused(name, value, type_words(bool))


def _int(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().isascii():
        try:
            return int(value)
        except ValueError:
            pass  # "1e3" and "4.0" are whole numbers too
    number = _number(value)
    if number is None or not number.is_integer() or abs(number) > 2**53:
        raise refused(name, value, type_words(int))
    return int(number)


def _float(name: str, value: Any) -> float:
    number = _number(value)
    if number is None:
        raise refused(name, value, type_words(float))
    return number


def _number(value: Any) -> float | None:
    """A finite number from what may be one; digits of other scripts are not read."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and not value.strip().isascii():
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or (not isinstance(value, int | float) and not hasattr(value, "__fspath__")):
        raise refused(name, value, type_words(str))
    return str(value)


def _choice(name: str, value: Any, annotation: Any) -> Any:
    text = value.strip().lower() if isinstance(value, str) else shown(value).lower()
    for choice in get_args(annotation):
        if type(value) is type(choice) and value == choice:
            return choice
        if isinstance(value, str | int | float) and text == str(choice).lower():
            return choice
    raise refused(name, value, type_words(annotation))


def _sequence(name: str, value: Any, annotation: Any) -> Any:
    if isinstance(value, str):
        value = _listed(name, value.strip(), annotation)
    if not isinstance(value, list | tuple):
        raise refused(name, value, type_words(annotation))
    item = get_args(annotation)[0]
    return get_origin(annotation)(coerce(name, part, item) for part in value)


def _listed(name: str, text: str, annotation: Any) -> list[Any]:
    """The parts of `[1, 2]`, `(1, 2)` or `1,2`; a comma at the end is allowed."""
    if text[:1] == "[":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise refused(name, text, type_words(annotation)) from None
    parts = [part.strip() for part in text.strip("()").split(",")]
    return parts if parts[-1] else parts[:-1]
