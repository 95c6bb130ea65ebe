"""Numbers for people: a metric as text, a scale for an axis of times. Significant digits only."""

from typing import NamedTuple

from labkit.metrics.metric import Metric
from labkit.units import (
    ABSENT,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    format_percent,
    format_rate,
    format_time,
    significant,
)


class TimeUnit(NamedTuple):
    """A unit of an axis of times: how many ns it has, and its name."""

    ns: int
    name: str


def metric_text(metric: Metric | None) -> str:
    """A metric's value with its unit, three significant digits; `–` where it is absent."""
    if metric is None or metric.value is None:
        return ABSENT
    if metric.unit == "ns":
        return format_time(metric.value)
    if metric.unit == "share":
        return format_percent(metric.value)
    if metric.unit.startswith(("flop", "bytes", "B/")):
        return format_rate(metric.value, metric.unit)
    return f"{count_text(metric.value)} {metric.unit}".strip()


def count_text(value: float) -> str:
    """A count or a rate of whole things, three significant digits, thousands apart: `5 080`."""
    if abs(value) < 1000:
        return significant(value)
    digits = len(f"{abs(value):.0f}")
    return grouped(round(value, 3 - digits))


def grouped(value: float) -> str:
    """A whole number with its thousands apart by a narrow space."""
    return f"{value:,.0f}".replace(",", "\u202f")


def error_text(error: float) -> str:
    """A relative error with its sign, `+4.1 %`; the sign says that the prediction is above the measurement."""
    percent = round(100 * error, 1) + 0.0  # -0.0 becomes 0.0
    return f"{percent:+.1f} %" if abs(percent) < 9.95 else f"{percent:+.0f} %"


def relative_error(predicted: Metric | None, measured: Metric | None) -> float | None:
    """Prediction over measurement, less one; None where either is absent or the measurement is zero."""
    if predicted is None or measured is None or predicted.value is None or not measured.value:
        return None
    return predicted.value / measured.value - 1


def time_unit(largest_ns: float) -> TimeUnit:
    """The unit in which a time up to `largest_ns` reads best on an axis."""
    for ns, name in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if largest_ns >= 2 * ns:
            return TimeUnit(ns, name)
    return TimeUnit(1, "ns")
