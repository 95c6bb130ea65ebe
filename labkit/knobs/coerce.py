"""Text to typed values: what a shell, papermill or JSON gives becomes what a knob declares, or is refused.

papermill passes `-p flag true` as text, `-p n 1e3` as a float and `-p id 007` as 7; a shell passes text only.
One rule for all of them: the declared type decides, nothing is guessed beyond it.
"""

import json
import math
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from labkit.errors import KnobError

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_NONE = {"none", "null", "~", ""}
_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def type_words(annotation: Any) -> str:
    """A declared type in words, for messages and help."""
    if _is_optional(annotation):
        return f"{type_words(_inner(annotation))}, or none"
    if get_origin(annotation) is Literal:
        return "choice"
    if get_origin(annotation) in (tuple, list):
        return f"list of {type_words(get_args(annotation)[0])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def coerce(name: str, value: Any, annotation: Any) -> Any:
    """`value` as the type that `annotation` declares. Raises KnobError where it cannot be read as one."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()  # a numpy scalar
    if _is_optional(annotation):
        if value is None or (isinstance(value, str) and value.strip().lower() in _NONE):
            return None
        return coerce(name, value, _inner(annotation))
    if value is None:
        raise refused(name, value, annotation)
    if get_origin(annotation) is Literal:
        return _choice(name, value, annotation)
    if get_origin(annotation) in (tuple, list):
        return _sequence(name, value, annotation)
    reader = {bool: _bool, int: _int, float: _float, str: _text}.get(annotation)
    return value if reader is None else reader(name, value)


def refused(name: str, value: Any, annotation: Any) -> KnobError:
    """The error for a value that is not of the declared type."""
    allowed = " | ".join(map(str, get_args(annotation))) if get_origin(annotation) is Literal else None
    return KnobError(f"{name}={value!r} is not allowed; allowed: {allowed or type_words(annotation)}")


def _bool(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if isinstance(value, str | int) and word in _TRUE | _FALSE:
        return word in _TRUE
    raise refused(name, value, bool)


def _int(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        if text.lstrip("+-").isdigit() and text.isascii():
            return int(text)
    number = _number(value)
    if number is None or not number.is_integer() or abs(number) > 2**53:
        raise refused(name, value, int)
    return int(number)


def _float(name: str, value: Any) -> float:
    number = _number(value)
    if number is None:
        raise refused(name, value, float)
    return number


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
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
        raise refused(name, value, str)
    return str(value)


def _choice(name: str, value: Any, annotation: Any) -> Any:
    for choice in get_args(annotation):
        if value == choice and type(value) is type(choice):
            return choice
        if isinstance(value, str | int | float) and str(value).strip().lower() == str(choice).lower():
            return choice
    raise refused(name, value, annotation)


def _sequence(name: str, value: Any, annotation: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        text = value.strip()
        try:
            value = json.loads(text) if text[:1] == "[" else [part for part in text.strip("()").split(",") if part]
        except ValueError:
            raise refused(name, text, annotation) from None
    if not isinstance(value, list | tuple):
        raise refused(name, value, annotation)
    item = get_args(annotation)[0]
    return tuple(coerce(name, part, item) for part in value)


def _is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def _inner(annotation: Any) -> Any:
    return next(part for part in get_args(annotation) if part is not NoneType)
