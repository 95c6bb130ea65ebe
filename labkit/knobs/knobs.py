"""The model that an experiment's knobs are declared in: a frozen pydantic model, one field a knob.

    class PipelineKnobs(Knobs):
        prefetch: int = knob(2, "batches loaded ahead", ge=0, le=64)
        pinned: bool = knob(True, "load into pinned memory", inert={"cpu": "there is no link to pin for"})

Everything that shows knobs to people (command line, notebook cell, sweep grid, widgets) reads this declaration.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from labkit.errors import KnobError
from labkit.knobs.coerce import coerce, is_optional, refused, type_words, without_none

_UNDECLARED: dict[str, Any] = {"unit": "", "live": True, "inert": {}, "cold_when": {}}


def knob(
    default: Any,
    help: str,
    *,
    unit: str = "",
    ge: float | None = None,
    le: float | None = None,
    live: bool = True,
    inert: Mapping[str, str] | None = None,
    cold_when: Mapping[str, Any] | None = None,
) -> Any:
    """Declare one knob.

    default  its value when nobody turns it
    help     one line for people
    unit     what it counts, for labels
    ge, le   bounds, both allowed values
    live     acts on the next step of a running experiment; otherwise cold: the worker is started anew
    inert    device kind ("cpu", "cuda", "simulated") → why the knob cannot act there
    cold_when  other knob → the value with which this live knob is cold after all
    """
    extra = {"unit": unit, "live": live, "inert": dict(inert or {}), "cold_when": dict(cold_when or {})}
    return Field(default=default, description=help, ge=ge, le=le, json_schema_extra=extra)


class Knobs(BaseModel):
    """The base of every experiment's knobs: frozen, no unknown names, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Knobs from values in any form that a shell, papermill or JSON gives; the others keep their defaults.

        Raises KnobError: what is wrong, which value, what is allowed.
        """
        for name in values:
            if name not in cls.model_fields:
                raise KnobError(f"there is no knob {name!r}; allowed: {', '.join(cls.model_fields)}")
        typed = {name: cls._typed(name, value) for name, value in values.items()}
        try:
            return cls(**typed)
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0]) if error.errors()[0]["loc"] else ""
            if name not in cls.model_fields:
                raise KnobError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
            raise refused(name, typed.get(name), cls.allowed(name)) from None

    def changed(self, **values: Any) -> Self:
        """These knobs with some of them turned; checked as `parse` does."""
        return type(self).parse({**self.model_dump(), **values})

    @classmethod
    def annotation(cls, name: str) -> Any:
        """The declared type of a knob."""
        return cls.model_fields[name].annotation

    @classmethod
    def unit(cls, name: str) -> str:
        """What a knob counts, "" for nothing in particular."""
        return _extra(cls.model_fields[name])["unit"]

    @classmethod
    def is_live(cls, name: str) -> bool:
        """Whether turning the knob acts on the next step (else the worker is started anew), as it is declared."""
        return _extra(cls.model_fields[name])["live"]

    @classmethod
    def choices(cls, name: str) -> tuple[Any, ...]:
        """The values of a knob that takes one of a few, () otherwise."""
        annotation = cls.annotation(name)
        if annotation is bool:
            return (False, True)
        return get_args(annotation) if get_origin(annotation) is Literal else ()

    @classmethod
    def bounds(cls, name: str) -> tuple[float | None, float | None]:
        """The least and the greatest value allowed, None where there is no bound."""
        least = greatest = None
        for constraint in cls.model_fields[name].metadata:
            least = getattr(constraint, "ge", least)
            greatest = getattr(constraint, "le", greatest)
        return least, greatest

    @classmethod
    def allowed(cls, name: str) -> str:
        """What a knob takes, in words: "whole number, 0 to 64"."""
        choices = cls.choices(name)
        if choices:
            return " | ".join(str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in choices)
        annotation, bounds = cls.annotation(name), _bounds_words(*cls.bounds(name))
        if not bounds:
            return type_words(annotation)
        return f"{type_words(without_none(annotation))}, {bounds}{', or none' if is_optional(annotation) else ''}"

    @classmethod
    def inert_reason(cls, name: str, device_kind: str) -> str | None:
        """Why a knob cannot act on a kind of device; None where it acts."""
        return _extra(cls.model_fields[name])["inert"].get(device_kind)

    def acts_live(self, name: str) -> bool:
        """Whether turning the knob acts on the next step, with these values of the others."""
        cold_when = _extra(type(self).model_fields[name])["cold_when"]
        return self.is_live(name) and not any(getattr(self, other) == value for other, value in cold_when.items())

    def cold(self) -> dict[str, Any]:
        """The values of the cold knobs: two runs that differ in one of them cannot share a worker's set-up."""
        return {name: value for name, value in self.model_dump().items() if not self.acts_live(name)}

    def differences(self, other: Self) -> dict[str, tuple[Any, Any]]:
        """The knobs whose values differ: name → (mine, the other's)."""
        mine, theirs = self.model_dump(), other.model_dump()
        return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}

    @classmethod
    def _typed(cls, name: str, value: Any) -> Any:
        try:
            return coerce(name, value, cls.annotation(name))
        except KnobError:  # it knows the type alone; the knob also has bounds
            raise refused(name, value, cls.allowed(name)) from None


def _bounds_words(least: float | None, greatest: float | None) -> str:
    if least is None:
        return "" if greatest is None else f"{greatest} or less"
    return f"{least} or more" if greatest is None else f"{least} to {greatest}"


def _extra(info: FieldInfo) -> dict[str, Any]:
    extra = info.json_schema_extra
    return extra if isinstance(extra, dict) and "live" in extra else _UNDECLARED
