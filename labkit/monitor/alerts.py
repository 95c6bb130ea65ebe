"""Alerts: what rules say of a run's values.

`rule.py` declares a rule, `rule_file.py` reads rules from a file, `runner/alerting.py` takes the values from a run. A value that
is absent fires nothing and is not passed over: its alert says that it was not evaluated, and why.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labkit.monitor.quantity import quantity_text
from labkit.monitor.rule import LEVELS, UTILIZATION, Level, Rule, metric_unit
from labkit.monitor.rule_file import EXAMPLE, read_rules, rules_of

__all__ = ["EXAMPLE", "Alert", "Rule", "Value", "evaluate", "read_rules", "rules_of"]

LINES = {"critical": "critical alert", "warning": "warning alert", "ok": "no alert", None: "note"}
"""How a line about an alert begins, by its level."""

_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Value:
    """What a rule is checked against: a value in the unit that `metric_unit` says, or None with the reason."""

    value: float | None
    unit: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """What one rule says of one run.

    level   "ok", "warning" or "critical"; None where it could not be evaluated, for the `reason`
    value   in `unit`, as is `limit`: the one that the words name
    words   for people: "pipeline_stall is 23 %, above the critical limit of 20 %"
    counts  it fired at the rule's level or above
    """

    metric: str
    level: Level | None
    value: float | None
    unit: str
    limit: float | None
    words: str
    reason: str | None = None
    counts: bool = False

    @property
    def fired(self) -> bool:
        """Whether a limit was crossed, at whatever level."""
        return self.level in LEVELS

    @property
    def line(self) -> str:
        """The words after the level: `critical alert: pipeline_stall is …`."""
        return f"{LINES.get(self.level, LINES[None])}: {self.words}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the record."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Alert":
        """What `as_dict` was called on; fields of a later version are ignored. Raises TypeError for other data."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})


def evaluate(rules: Iterable[Rule], values: Mapping[str, Value]) -> tuple[Alert, ...]:
    """An alert for each rule, in order: fired, ok, or not evaluated for a reason."""
    return tuple(_evaluated(rule, values.get(rule.metric, _missing(rule.metric))) for rule in rules)


def _evaluated(rule: Rule, found: Value) -> Alert:
    unit, value = found.unit, found.value
    if value is None or not math.isfinite(value):
        reason = found.reason or f"it is {value}, and no reason was given"
        return Alert(rule.metric, None, None, unit, None, f"{rule.metric} is not evaluated: {reason}", reason)
    level = rule.level_of(value)
    return Alert(
        rule.metric, level, value, unit, rule.limit(level), _words(rule, level, value, unit), None, rule.counts(level)
    )


def _missing(metric: str) -> Value:
    lane = metric.removeprefix(UTILIZATION)
    reason = "the run gave no such value" if lane == metric else f"the run had no lane '{lane}'"
    return Value(None, metric_unit(metric), reason)


def _words(rule: Rule, level: Level, value: float, unit: str) -> str:
    """With as many digits as tell the value from the limit."""
    limit, digits = rule.limit(level), 3
    while digits < _MOST_DIGITS and _text(rule, value, unit, digits) == _text(rule, limit, unit, digits):
        digits += 1
    name, side = ("warning", f"not {rule.when}") if level == "ok" else (level, rule.when)
    number, allowed = _text(rule, value, unit, digits), _text(rule, limit, unit, digits)
    return f"{rule.metric} is {number}, {side} the {name} limit of {allowed}"


def _text(rule: Rule, value: float, unit: str, digits: int) -> str:
    return quantity_text(value, unit, digits, rule.unit)
