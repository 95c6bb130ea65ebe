"""A metric: a value that says its unit, how many samples it rests on, what it means, and which way is better."""

from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number, or the reason why there is none.

    value       None where it cannot be had; `reason` then says why
    unit        "items/s", "ns", "share", ...
    n           samples it rests on
    better      which direction is an improvement; None where neither is
    definition  what it is, in one line
    """

    name: str
    value: float | None
    unit: str
    n: int
    definition: str
    better: Better | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the record."""
        return {name: getattr(self, name) for name in self.__slots__}
