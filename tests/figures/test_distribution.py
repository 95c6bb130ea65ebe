"""The distribution: every step interval, none invented."""

import numpy as np
import pytest

from labkit.figures import Shown, distribution
from labkit.figures.distribution import POINTS, step_intervals_ns
from labkit.metrics.latency import step_intervals_ns as intervals_of_the_metrics
from labkit.metrics.window import steady_window
from tests.figures.shown_runs import dense_trace, shown_of_trace


def test_the_curve_ends_at_one_hundred_percent_and_the_longest_interval(a: Shown):
    [curve] = distribution([a]).data
    samples = step_intervals_ns(a)
    assert curve.y[0] == 0 and curve.y[-1] == 100
    assert curve.x[-1] * 1000 == pytest.approx(samples[-1])
    assert f"n = {len(samples)}" in curve.name


def test_the_samples_are_those_that_the_metrics_count(b: Shown):
    window = steady_window(b.trace, warmup_steps=4)
    np.testing.assert_array_equal(step_intervals_ns(b), np.sort(intervals_of_the_metrics(b.trace, window)))


def test_many_samples_are_thinned_and_their_number_is_still_told():
    [curve] = distribution([shown_of_trace(dense_trace(50_000))]).data
    assert len(curve.x) == POINTS + 1
    assert "n = 49999" in curve.name


def test_runs_of_very_different_speed_are_drawn_on_a_logarithmic_axis():
    fast, slow = dense_trace(50), dense_trace(50, length_ns=60_000, gap_ns=0)
    figure = distribution([shown_of_trace(fast), shown_of_trace(slow, "B")])
    assert figure.layout.xaxis.type == "log"
    assert distribution([shown_of_trace(fast)]).layout.xaxis.type is None
