"""A rule: limits of one metric, checked when it is made. The metrics that a rule may be about, with their units.

`rule_file.py` reads rules from a file; `alerts.py` says what they find in a run's values.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from labkit.errors import AlertError
from labkit.monitor.quantity import SHARE, WRITTEN, plain_unit, written_units
from labkit.monitor.sampler import OWN_COST
from labkit.monitor.sensors import sensor_units
from labkit.schedule import ROLES

Level = Literal["ok", "warning", "critical"]

WHEN = ("below", "above")
LEVELS = ("warning", "critical")
UTILIZATION = "utilization_"

RUN_UNITS = {
    "throughput": "items/s",
    **dict.fromkeys([f"step_interval_{name}" for name in ("mean", "p50", "p95", "p99")], "ns"),
    **dict.fromkeys([f"batch_age_{name}" for name in ("p50", "p95", "p99")], "ns"),
    "pipeline_stall": SHARE,
    "overlap": SHARE,
    "bound_efficiency": SHARE,
}
"""What a rule may be about beside the lanes and the sensors, with its unit."""

_LANE = re.compile(rf"{UTILIZATION}({'|'.join(ROLES)})([1-9]\d*)?")
_MOST = 1e18
"""Of a written limit: beyond, it is a slip of the pen."""
_SAME = 1e-9
"""Relative difference below which a value is the limit itself: limits and values are rounded differently."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits of one metric. Raises AlertError for a metric, a unit or limits that make no sense.

    when      the side that is bad: "below" or "above" the limits
    unit      of the limits: "%", "ms", "GB", ...; the metric's own where not given
    level     the lowest level that counts: of `labkit run`'s exit code
    """

    metric: str
    when: Literal["below", "above"]
    warning: float
    critical: float
    unit: str | None = None
    level: Literal["warning", "critical"] = "warning"

    def __post_init__(self) -> None:
        own_unit = metric_unit(self.metric)
        self._check_choice("when", self.when, WHEN)
        self._check_choice("level", self.level, LEVELS)
        if self.unit is not None:
            self._check_choice("unit", self.unit, written_units(own_unit))
        for name in LEVELS:
            self._check_limit(name, getattr(self, name), own_unit)
        in_order = self.critical <= self.warning if self.when == "below" else self.critical >= self.warning
        if not in_order:
            raise AlertError(
                f"{self.metric}: critical={self.critical} and warning={self.warning} are in the wrong order: {self.when} the "
                f"limits is bad, so critical must be {'at most' if self.when == 'below' else 'at least'} the warning limit"
            )

    def limit(self, level: str) -> float:
        """The limit of a level, in the metric's own unit."""
        written = self.critical if level == "critical" else self.warning
        return written if self.unit is None else written * WRITTEN[self.unit][1]

    def level_of(self, value: float) -> Level:
        """How bad a value is. One that equals a limit has not crossed it."""
        for level in reversed(LEVELS):
            limit = self.limit(level)
            crossed = value < limit if self.when == "below" else value > limit
            if crossed and not math.isclose(value, limit, rel_tol=_SAME):
                return level
        return "ok"

    def counts(self, level: Level) -> bool:
        """Whether a level is at or above the rule's own."""
        return level in LEVELS[LEVELS.index(self.level) :]

    def _check_choice(self, name: str, value: Any, allowed: tuple[str, ...]) -> None:
        if value not in allowed:
            raise AlertError(f"{self.metric}: {name}={value!r} is not allowed: {', '.join(allowed)}")

    def _check_limit(self, name: str, value: Any, own_unit: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise AlertError(f"{self.metric}: {name}={value!r} is not allowed: a number is")
        if not abs(value) <= _MOST:
            raise AlertError(f"{self.metric}: {name}={value} is not allowed: a finite number up to {_MOST:g} is")
        if own_unit == SHARE and not 0 <= self.limit(name) <= 1:
            hint = "0 to 100 % are" if self.unit == "%" else 'a share of 0 to 1 is; for percent write "unit": "%"'
            raise AlertError(f"{self.metric}: {name}={value} is not allowed: {hint}")


@cache
def metric_units() -> dict[str, str]:
    """The plain unit of every metric that a rule may name, by name; the lanes' utilization is named by role."""
    lanes = dict.fromkeys([UTILIZATION + role for role in ROLES], SHARE)
    sensors = {name: plain_unit(unit) for name, unit in sensor_units().items()}
    return {**RUN_UNITS, **lanes, **sensors, OWN_COST: SHARE}


def metric_unit(name: Any) -> str:
    """The plain unit of a metric. Raises AlertError where there is none of this name."""
    units = metric_units()
    if isinstance(name, str):
        if name in units:
            return units[name]
        if _LANE.fullmatch(name):
            return SHARE
    raise AlertError(f"there is no metric {name!r}; there are: {', '.join(units)}")


def check_distinct(rules: Iterable[Rule]) -> None:
    """Raises AlertError where two rules set limits to the same side of the same metric."""
    seen: set[tuple[str, str]] = set()
    for rule in rules:
        if (rule.metric, rule.when) in seen:
            raise AlertError(f"two rules say when {rule.metric} is bad {rule.when} a limit; one is allowed")
        seen.add((rule.metric, rule.when))
