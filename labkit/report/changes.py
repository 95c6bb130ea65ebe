"""What B changed against A: two more columns for the side by side table, the change and which way would be a regression."""

from collections.abc import Mapping, Sequence

from labkit.metrics.compare import Ratio
from labkit.metrics.gate import change_text, metrics_of
from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary
from labkit.units import ABSENT

HEADING = ("B against A", "worse is")
NOT_SEEN = 0.0005
"""A change that would be printed as 0.0 %."""


def with_changes(rows: Sequence[Sequence[str]], a: Summary, b: Summary, ratios: Mapping[str, Ratio] | None = None) -> list[list[str]]:
    """The rows of `side_by_side_table` of A and B, the heading first, each with its change in words and the direction that is worse.

    ratios  B ÷ A with their intervals where both were measured in turns; None where they were not
    """
    of_a, of_b = metrics_of(a), metrics_of(b)
    heading, *body = rows
    table = [[*heading, *HEADING]]
    for name, *cells in body:
        one, two = of_a.get(name), of_b.get(name)
        ratio = None if ratios is None else ratios.get(name, Ratio(None, None, None, 0, "no interval"))
        table.append([name, *cells, *(("", "") if one is None and two is None else (change_words(one, two, ratio), worse_words(one or two)))])
    return table


def change_words(a: Metric | None, b: Metric | None, ratio: Ratio | None = None) -> str:
    """`+43.0 %: better`; with an interval `+43.0 % (+38.0 % to +49.0 %): better`, or that no difference is shown; `–` where a side is absent."""
    if a is None or b is None or a.value is None or b.value is None:
        return ABSENT
    if ratio is not None and ratio.value is not None and ratio.low is not None and ratio.high is not None:
        reach = f"({change_text(ratio.low - 1)} to {change_text(ratio.high - 1)})"
        if ratio.low <= 1 <= ratio.high:
            return f"no difference shown {reach}"
        return f"{change_text(ratio.value - 1)} {reach}{_judgement(a, ratio.value - 1)}"
    if a.value <= 0:
        return "no change" if a.value == b.value else f"from {a.value:g}{_judgement(a, b.value - a.value)}"
    change = b.value / a.value - 1
    if abs(change) < NOT_SEEN:
        return "no change"
    return change_text(change) + (", no interval" if ratio is not None else _judgement(a, change))


def worse_words(metric: Metric | None) -> str:
    """`less`, `more`, or `–` where neither is worse."""
    return ABSENT if metric is None or metric.better is None else {"higher": "less", "lower": "more"}[metric.better]


def _judgement(metric: Metric, change: float) -> str:
    """Nothing where neither way is better."""
    if metric.better is None:
        return ""
    return ": better" if (change > 0) == (metric.better == "higher") else ": worse"
