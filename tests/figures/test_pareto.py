"""Throughput against latency: the front is drawn, measured and simulated runs apart, and nothing invalid is on it."""

import pandas as pd
import pytest

from labkit.figures import on_front, pareto


def run(number: int, rate: float, p99_ms: float, grade: str = "VALID", measured: bool = True, **knobs: object) -> dict[str, object]:
    row = {"id": f"r{number}", "device_label": "CPU threads" if measured else "L4", "measured": measured, "grade": grade}
    return {**row, "throughput": rate, "latency_p99_ns": p99_ms * 1e6, "knob.max_batch": number, "knob.seed": 0, **knobs}


ROWS = [run(1, 100, 5), run(2, 200, 9), run(3, 150, 20), run(4, 300, 40, "WEAK"), run(5, 900, 1, "INVALID")]


def test_the_front_is_joined_from_the_best_rate_on_and_the_others_are_not():
    others, best, invalid = pareto(pd.DataFrame(ROWS)).data
    assert (list(best.x), list(best.y)) == ([300, 200, 100], [40, 9, 5])
    assert list(best.text) == ["1", "2", "3"]
    assert list(best.marker.symbol) == ["circle-open", "circle", "circle"], "what is WEAK is open"
    assert (list(others.x), others.mode) == ([150], "markers")
    assert (list(invalid.x), invalid.name) == ([900], "CPU threads: INVALID")


def test_the_knobs_that_differ_are_told_and_no_others():
    title = pareto(pd.DataFrame(ROWS)).layout.title.text
    assert "1: max_batch 4; 2: max_batch 2; 3: max_batch 1" in title
    assert "seed" not in title


def test_measured_and_simulated_runs_have_a_front_each():
    figure = pareto(pd.DataFrame([run(1, 100, 5), run(2, 900, 1, "PREDICTED", measured=False)]))
    assert [(trace.name, trace.line.dash) for trace in figure.data] == [
        ("CPU threads: Pareto front", "solid"),
        ("simulated L4: Pareto front", "dash"),
    ]


def test_runs_with_equal_numbers_share_a_place():
    figure = pareto(pd.DataFrame([run(1, 100, 5), run(2, 100, 5), run(3, 200, 9)]))
    assert list(figure.data[0].text) == ["1", "2", ""]
    assert "2: max_batch 1 and 1 more alike" in figure.layout.title.text


def test_without_a_number_it_says_so_and_a_column_that_is_not_there_is_refused():
    empty = pareto(pd.DataFrame([run(1, float("nan"), 5)]))
    assert empty.layout.annotations[0].text == "no run has both numbers"
    with pytest.raises(ValueError, match="no column 'speed' to draw; allowed: id, "):
        pareto(pd.DataFrame(ROWS), "speed")


def test_the_rows_of_the_front_can_be_had():
    assert on_front(pd.DataFrame(ROWS))["id"].tolist() == ["r4", "r2", "r1"]
