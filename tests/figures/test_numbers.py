"""Numbers on figures have three significant digits, a unit, and no invented values."""

import pytest

from labkit.figures.numbers import count_text, error_text, metric_text, relative_error, time_unit
from labkit.metrics.metric import Metric


def metric(value: float | None, unit: str) -> Metric:
    return Metric("m", value, unit, 1, "")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5076.3, "items/s", "5\u202f080 items/s"),
        (1_234_567, "items/s", "1\u202f230\u202f000 items/s"),
        (64, "items/s", "64 items/s"),
        (0.0, "items/s", "0 items/s"),
        (17_340_000, "ns", "17.3 ms"),
        (0.287, "share", "29 %"),
        (3.2e12, "flop/s", "3.2 Tflop/s"),
        (None, "items/s", "–"),
    ],
)
def test_a_metric_as_text(value: float | None, unit: str, text: str):
    assert metric_text(metric(value, unit)) == text


def test_a_metric_that_is_not_there_is_a_dash():
    assert metric_text(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"), [(999, "999"), (1005, "1\u202f000"), (99_950, "100\u202f000"), (12.345, "12.3")]
)
def test_counts_are_rounded_to_three_digits(value: float, text: str):
    assert count_text(value) == text


def test_an_error_has_its_sign():
    assert [error_text(error) for error in (0.041, -0.064, 0.31, 0.0)] == [
        "+4.1 %",
        "-6.4 %",
        "+31 %",
        "+0.0 %",
    ]


def test_the_error_of_what_is_absent_or_zero_is_absent():
    assert relative_error(metric(110, "ns"), metric(100, "ns")) == pytest.approx(0.1)
    assert relative_error(metric(None, "ns"), metric(100, "ns")) is None
    assert relative_error(metric(1, "ns"), metric(0, "ns")) is None
    assert relative_error(metric(1, "ns"), None) is None


@pytest.mark.parametrize(
    ("largest", "name"), [(5e9, "s"), (1.9e9, "ms"), (17e6, "ms"), (1500, "ns"), (2500, "µs"), (0, "ns")]
)
def test_the_unit_of_an_axis_suits_its_largest_time(largest: float, name: str):
    assert time_unit(largest).name == name
