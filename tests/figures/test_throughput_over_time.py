"""Throughput over time: rates between completions, so that no bin cuts a step in two and a stall is not a zero."""

from itertools import pairwise

import numpy as np
import pytest

from labkit.figures import Shown, throughput_over_time
from labkit.figures.throughput_over_time import BINS, rates
from tests.figures.shown_runs import ITEMS, dense_trace, shown, shown_of_trace


def test_a_steady_run_has_one_rate(a: Shown):
    first_ns, last_ns = a.summary.window_ns
    found = rates(a.trace, first_ns, last_ns)
    np.testing.assert_allclose(found.items_per_s, ITEMS / 15.003e-6, rtol=1e-3)


def test_the_mean_of_the_rates_is_the_throughput(b: Shown):
    edges_ns, items_per_s = rates(b.trace, *b.summary.window_ns)
    mean = np.sum(items_per_s * np.diff(edges_ns)) / (edges_ns[-1] - edges_ns[0])
    assert mean == pytest.approx(b.summary.throughput.value, rel=1e-9)


def test_fifty_thousand_steps_become_at_most_a_hundred_and_fifty_bins():
    found = rates(dense_trace(50_000), 0, 10**12)
    assert len(found.items_per_s) <= BINS
    assert len(found.edges_ns) == len(found.items_per_s) + 1


def test_fewer_than_two_completions_have_no_rate():
    assert len(rates(dense_trace(1), 0, 10**12).items_per_s) == 0
    figure = throughput_over_time([shown_of_trace(dense_trace(1))])
    assert not figure.data
    assert "no trace with two completed steps" in figure.layout.annotations[0].text


def test_what_lies_before_the_steady_window_is_pale(b: Shown):
    pale, steady = throughput_over_time([b]).data[:2]
    assert pale.line.color.endswith("0.4)") and pale.showlegend is False
    assert pale.x[-1] <= steady.x[0] + 1e-9


def test_a_toggle_is_marked_and_seen():
    run = shown("A", prefetch=4, steps=120, toggle_at=(60,))
    figure = throughput_over_time([run])
    [line] = figure.layout.shapes
    assert line.x0 == pytest.approx(run.trace.marks[0].time_ns / figure_unit_ns(figure))
    steady = figure.data[1]
    before, after = steady.y[2], steady.y[-3]
    assert after / before == pytest.approx(15 / 6, rel=0.05)


def toggled(label: str, *at_steps: int) -> Shown:
    """A run on which prefetch was turned at some steps."""
    return shown(label, prefetch=4, steps=120, toggle_at=at_steps)


def words_of(figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def test_a_toggle_that_two_runs_share_is_named_once_for_both():
    figure = throughput_over_time([toggled("A", 60), toggled("B", 60)])
    assert words_of(figure) == ["A, B: prefetch 0 → 4"]
    assert len(figure.layout.shapes) == 1


def test_toggles_at_other_times_are_named_one_by_one():
    figure = throughput_over_time([toggled("A", 30), toggled("B", 90)])
    assert words_of(figure) == ["A: prefetch 0 → 4", "B: prefetch 0 → 4"]


def test_words_of_toggles_never_overlap_and_every_toggle_has_its_line():
    figure = throughput_over_time([toggled("A", *range(5, 115, 5))])
    assert len(figure.layout.shapes) == 22
    spans: dict[float, list[tuple[float, float]]] = {}
    most = figure.layout.xaxis.range[1]
    for note in figure.layout.annotations:
        wide = most * 6.0 * len(note.text) / 600
        spans.setdefault(note.yshift, []).append((note.x - wide, note.x) if note.xanchor == "right" else (note.x, note.x + wide))
        assert -0.01 * most <= spans[note.yshift][-1][0] and spans[note.yshift][-1][1] <= 1.01 * most
    assert len(spans) == 2
    for row in spans.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(row)))


def figure_unit_ns(figure) -> int:
    return {"s": 10**9, "ms": 10**6, "µs": 1000, "ns": 1}[
        figure.layout.xaxis.title.text.rpartition("(")[2].strip(")")
    ]
