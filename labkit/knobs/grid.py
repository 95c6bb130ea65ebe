"""The sweep grid: every combination of the values that some knobs shall take."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from labkit.errors import KnobError
from labkit.knobs.knobs import Knobs


def parse_axis(text: str) -> tuple[str, list[str]]:
    """`"prefetch=0,1,2"` as ("prefetch", ["0", "1", "2"]). Raises KnobError where it has another form."""
    name, equals, values = text.partition("=")
    parts = [part.strip() for part in values.split(",")]
    if not equals or not name.strip() or not all(parts):
        raise KnobError(f"grid axis {text!r} is not of the form knob=value,value,…")
    return name.strip(), parts


def parse_axes(texts: Iterable[str]) -> dict[str, list[str]]:
    """Axes by knob. Raises KnobError for a knob that is given twice."""
    axes: dict[str, list[str]] = {}
    for name, values in map(parse_axis, texts):
        if name in axes:
            raise KnobError(f"grid axis {name!r} is given twice; give all of its values at once: {name}=value,value,…")
        axes[name] = values
    return axes


def grid(base: Knobs, axes: Mapping[str, Iterable[Any]]) -> list[Knobs]:
    """Every combination, the last axis turning fastest. Each is checked; a repeated combination comes once."""
    combinations = product(*(list(values) for values in axes.values()))
    points = [base.changed(**dict(zip(axes, values, strict=True))) for values in combinations]
    return list({point.model_dump_json(): point for point in points}.values())
