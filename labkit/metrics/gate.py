"""The gate: whether B is a regression beside A, by rules such as `throughput:-5%`, for a build that should fail then.

A rule names a metric and the change that is too much. Its sign is that of the change, so it must be the direction in which the metric
gets worse: a rule that would punish an improvement is refused.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labkit.errors import ExperimentError
from labkit.metrics.compare import Ratio
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary, summarize
from labkit.trace import Trace
from labkit.trace.trace import INT_COLUMNS

SHORT = {"p50": "step interval p50", "p95": "step interval p95", "p99": "step interval p99"}
_FORM = re.compile(r"\s*(?P<metric>.+?)\s*:\s*(?P<sign>[+-])\s*(?P<share>\d+(\.\d*)?|\.\d+)\s*%\s*")

_BUSY = "busy: "
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
    named |= {} if summary.requests is None else summary.requests.metrics()
    return named | {f"{_BUSY}{lane}": metric for lane, metric in summary.utilization.items()}


def check_before(rules: Iterable[Rule]) -> None:
    """What can be checked before anything is measured: every rule but those of a lane's busy share. Raises ExperimentError."""
    columns = {name: np.empty(0, np.int64) for name in (*INT_COLUMNS, "name", "lane")}
    nothing = Trace(columns, (), (), np.empty(0, np.int64), np.zeros(1, np.int64))
    known = metrics_of(summarize(nothing))
    for rule in rules:
        if not rule.metric.startswith(_BUSY):
            check_rule(rule, known)


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

    ratio  B ÷ A with its interval, where both were measured in turns: the rule fails only if all of the interval lies beyond its limit,
           and is undecided where there is none, whose reason is then told; None where they were not
    """
    for label, metric in (("A", a), ("B", b)):
        if metric is None or metric.value is None:
            reason = "it was not measured" if metric is None else metric.reason
            return Judged(rule, "failed", None, f"{rule.metric} of {label} is absent: {reason}")
    assert a is not None and b is not None and a.value is not None and b.value is not None
    if a.value <= 0:
        return _judged_from_zero(rule, a.value, b.value)
    if ratio is not None:
        return _judged_by_interval(rule, ratio, b.value / a.value - 1)
    change = b.value / a.value - 1
    failed = _beyond(change, rule)
    return Judged(rule, "failed" if failed else "passed", change, f"{rule.metric} changed by {change_text(change)}; allowed: {change_text(rule.share)}")


def _judged_from_zero(rule: Rule, a: float, b: float) -> Judged:
    """Of nothing there is no share: any change for the worse is too much, none other is."""
    failed = b < a if rule.share < 0 else b > a
    words = f"{rule.metric} was {a:g} and is {b:g}: no share can be told from that"
    return Judged(rule, "failed" if failed else "passed", None, f"{words}; any change for the worse is too much" if failed else f"{words}; it is no worse")


def _judged_by_interval(rule: Rule, ratio: Ratio, pooled: float) -> Judged:
    if ratio.value is None or ratio.low is None or ratio.high is None:
        words = f"{rule.metric} changed by {change_text(pooled)} over all rounds, without an interval ({ratio.reason}); allowed: {change_text(rule.share)}"
        return Judged(rule, "undecided", pooled, f"{words}; WEAK: longer rounds would decide it")
    change, low, high = ratio.value - 1, ratio.low - 1, ratio.high - 1
    nearest, farthest = (high, low) if rule.share < 0 else (low, high)
    result: Result = "failed" if _beyond(nearest, rule) else "undecided" if _beyond(farthest, rule) else "passed"
    words = f"{rule.metric} changed by {change_text(change)} ({change_text(low)} to {change_text(high)}); allowed: {change_text(rule.share)}"
    return Judged(rule, result, change, f"{words}; WEAK: the interval holds the limit" if result == "undecided" else words)


def _beyond(change: float, rule: Rule) -> bool:
    """More than the rule allows; what is just at the limit is not."""
    return change < rule.share - _ROUNDING if rule.share < 0 else change > rule.share + _ROUNDING


def change_text(change: float) -> str:
    """A change of a metric, `+4.1 %`; as a factor where it is more than threefold, `×9.57`; `over ×1000` beyond that."""
    factor = 1 + change
    if factor > 1000:
        return "over ×1000"
    return f"×{factor:.3g}" if factor > 3 else f"{100 * change:+.1f} %"
