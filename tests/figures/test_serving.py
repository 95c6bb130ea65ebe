"""Figures of requests: every one is where it was due, those without an answer are seen, and a prediction is never drawn as measured."""

from dataclasses import replace

import numpy as np
import pytest

from labkit import figures
from labkit.figures import Shown
from labkit.figures.serving import POINTS, _drawn, _ranks
from labkit.metrics.promise import Promise, Trial, find_peak
from labkit.metrics.summary import summarize
from labkit.schedule import Budget
from labkit.schedule.arrivals import OpenLoop
from tests.kernels.serving import MS, Served, serve


def shown(run: Served, label: str = "B", measured: bool = True) -> Shown:
    return Shown(label, "CPU threads", measured, summarize(run.trace), run.trace)


@pytest.fixture(scope="module")
def overloaded() -> Shown:
    run = serve(OpenLoop(200, seed=1), lambda n: 20.0, policy="none", in_flight=1, queue_limit=5, budget=Budget(seconds=2, warmup=0))
    return shown(run)


def test_each_request_is_drawn_where_it_was_due_at_the_latency_it_had():
    figure = figures.latency_over_time([shown(serve([0, 100, 200], policy="none"))])
    points = figure.data[0]
    assert np.asarray(points.x).tolist() == pytest.approx([0, 100, 200], abs=0.01)
    assert np.asarray(points.y).tolist() == pytest.approx([10, 10, 10], abs=0.01)
    assert "ms" in figure.layout.yaxis.title.text


def test_those_without_an_answer_are_crosses(overloaded: Shown):
    figure = figures.latency_over_time([overloaded])
    lost = figure.data[1]
    answers = overloaded.summary.requests.answers
    assert lost.name == f"B · CPU threads: {answers['rejected']} without an answer"
    assert lost.marker.symbol == "x"
    assert set(lost.text) == {"rejected"}


def test_the_distribution_of_latency_ends_below_a_hundred_where_some_were_turned_away(overloaded: Shown):
    curve = figures.latency_distribution([overloaded]).data[0]
    answers = overloaded.summary.requests.answers
    assert curve.y[-1] == pytest.approx(100 * answers["served"] / overloaded.summary.requests.sent, rel=1e-6)
    assert list(curve.y) == sorted(curve.y) and list(curve.x) == sorted(curve.x)


def test_of_many_requests_the_slowest_are_among_those_drawn():
    latency_ns = np.full(100_000, 5 * MS)
    latency_ns[[7, 55_555, 99_999]] = 900 * MS
    assert {7, 55_555, 99_999} <= set(_drawn(latency_ns).tolist())
    assert len(_drawn(latency_ns)) <= 1.5 * POINTS
    assert _drawn(latency_ns[:10]).tolist() == list(range(10))


@pytest.mark.parametrize("n", [0, 1, 2, 100, 1_000_000])
def test_the_curve_has_its_first_and_last_sample_and_more_of_the_tail(n: int):
    ranks = _ranks(n)
    assert len(ranks) <= 400
    if n:
        assert ranks[0] == 0 and ranks[-1] == n - 1
    if n > 1000:
        assert (ranks >= 0.999 * n).sum() > 50


def test_batches_are_shared_out_by_size():
    bars = figures.batch_sizes([shown(serve([0, 1, 2, 3, 30], policy="greedy", in_flight=1))]).data[0]
    assert list(bars.x) == [1, 3]
    assert list(bars.y) == [40, 60], "of the five requests: 0 and 30 alone, 1 2 3 together"


def test_runs_that_serve_are_compared_by_their_requests(overloaded: Shown):
    a = shown(serve([20.0 * n for n in range(200)], policy="none", slo=15.0), "A")
    figure = figures.side_by_side([a, overloaded])
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert "Latency from arrival (lower is better)" in titles
    rates = [trace for trace in figure.data if list(trace.x) == ["offered", "served", "in time"]]
    assert rates[0].y[2] == pytest.approx(50, rel=0.02)
    assert rates[1].y[2] is None, "nothing was promised there"


def test_a_run_that_serves_nothing_is_not_drawn_as_one():
    none = replace(shown(serve([0, 20], policy="none")), trace=None)
    assert "no run served a request" in str(figures.latency_over_time([none]).layout.annotations)
    assert "no run served a request" in str(figures.latency_distribution([none]).layout.annotations)


def test_a_prediction_is_hollow():
    points = figures.latency_over_time([shown(serve([0, 20, 40], policy="none"), measured=False)]).data[0]
    assert points.marker.symbol == "circle-open"


@pytest.mark.parametrize("measured", [True, False])
def test_the_curve_of_a_peak_shows_what_broke_the_promise(measured: bool):
    promise = Promise(0.99, 50 * MS)

    def trial(rate: float, number: int) -> Trial:
        return Trial(rate, rate, 1000, 1000, rate <= 300, rate * MS / 6, MS, rate)

    peak = find_peak(promise, trial, 50, measured=measured)
    curve = figures.latency_curve([("greedy", peak)]).data[0]
    broken = [x for x, symbol in zip(curve.x, curve.marker.symbol, strict=True) if symbol == "x"]
    assert min(broken) > 300
    assert set(curve.marker.symbol) - {"x"} == {"circle" if measured else "circle-open"}
    assert curve.line.dash == ("solid" if measured else "dash")
