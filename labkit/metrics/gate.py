"""The gate: whether B is a regression beside A, by rules such as `throughput:-5%`, for a build that should fail then.

A rule names a metric and the change that is too much. Its sign is that of the change, so it must be the direction in which the metric
gets worse: a rule that would punish an improvement is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from labkit.errors import ExperimentError
from labkit.metrics.compare import Ratio
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary

SHORT = {"p50": "step interval p50", "p95": "step interval p95", "p99": "step interval p99"}
_FORM = re.compile(r"\s*(?P<metric>.+?)\s*:\s*(?P<sign>[+-])\s*(?P<share>\d+(\.\d*)?|\.\d+)\s*%\s*")

_ROUNDING = 1e-9

Result = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class Rule:
    """A change that is too much: `share` −0.05 of "throughput" is a loss of 5 %."""

    metric: str
    share: float

    @property
    def text(self) -> str:
        """As it is written on the command line."""
        return f"{self.metric}:{100 * self.share:+g}%"


@dataclass(frozen=True)
class Judged:
    """What became of a rule: B ÷ A − 1, and the result in words."""

    rule: Rule
    result: Result
    change: float | None
    words: str


def read_rule(text: str) -> Rule:
    """A rule from `METRIC:-5%` or `METRIC:+10%`. Raises ExperimentError: which rule, and what is allowed."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ExperimentError(f"rule {text!r} is not of the form METRIC:-5% or METRIC:+10%")
    name = SHORT.get(form["metric"].lower(), form["metric"].lower())
    share = float(f"{form['sign']}{form['share']}") / 100
    if share == 0:
        raise ExperimentError(f"rule {text!r}: a change of 0 % is not allowed; give what is too much, such as {form['metric']}:{form['sign']}5%")
    return Rule(name, share)


def metrics_of(summary: Summary) -> dict[str, Metric]:
    """Every metric of a run by the name that tables and rules give it."""
    named = {"throughput": summary.throughput, "overlap": summary.overlap, "bound efficiency": summary.bound_efficiency}
    named |= {f"step interval {name}": metric for name, metric in summary.step_interval.items()}
    named |= {f"batch age {name}": metric for name, metric in summary.batch_age.items()}
    return named | {f"busy: {lane}": metric for lane, metric in summary.utilization.items()}


def check_rule(rule: Rule, known: Mapping[str, Metric]) -> None:
    """Raises ExperimentError for a metric that is none, has no better side, or gets better where the rule says it gets worse."""
    metric = known.get(rule.metric)
    if metric is None:
        raise ExperimentError(f"rule '{rule.text}': there is no metric '{rule.metric}'; there are: {', '.join(known)}; {', '.join(SHORT)}")
    if metric.better is None:
        raise ExperimentError(f"rule '{rule.text}': neither more nor less of '{rule.metric}' is better, so nothing is a regression of it")
    worse = -1 if metric.better == "higher" else 1
    if rule.share * worse < 0:
        turned = Rule(rule.metric, -rule.share).text
        raise ExperimentError(f"rule '{rule.text}': {metric.better} is better for '{rule.metric}', so that is an improvement; did you mean '{turned}'?")


def judge_rule(rule: Rule, a: Metric | None, b: Metric | None, ratio: Ratio | None = None) -> Judged:
    """Whether B is worse than A by more than the rule allows.

    ratio  B ÷ A with its interval, where both were measured in turns: the rule fails only if all of the interval lies beyond its limit
    """
    for label, metric in (("A", a), ("B", b)):
        if metric is None or metric.value is None:
            reason = "it was not measured" if metric is None else metric.reason
            return Judged(rule, "failed", None, f"{rule.metric} of {label} is absent: {reason}")
    assert a is not None and b is not None and a.value is not None and b.value is not None
    if ratio is not None and ratio.value is not None and ratio.low is not None and ratio.high is not None:
        return _judged_by_interval(rule, ratio.value - 1, ratio.low - 1, ratio.high - 1)
    if a.value <= 0:
        return Judged(rule, "failed", None, f"{rule.metric} of A is {a.value:g}: no change can be told from that")
    change = b.value / a.value - 1
    failed = _beyond(change, rule)
    return Judged(rule, "failed" if failed else "passed", change, f"{rule.metric} changed by {_percent(change)}; allowed: {_percent(rule.share)}")


def _judged_by_interval(rule: Rule, change: float, low: float, high: float) -> Judged:
    nearest, farthest = (high, low) if rule.share < 0 else (low, high)
    result: Result = "failed" if _beyond(nearest, rule) else "undecided" if _beyond(farthest, rule) else "passed"
    words = f"{rule.metric} changed by {_percent(change)} ({_percent(low)} to {_percent(high)}); allowed: {_percent(rule.share)}"
    return Judged(rule, result, change, f"{words}; WEAK: the interval holds the limit" if result == "undecided" else words)


def _beyond(change: float, rule: Rule) -> bool:
    """More than the rule allows; what is just at the limit is not."""
    return change < rule.share - _ROUNDING if rule.share < 0 else change > rule.share + _ROUNDING


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"
