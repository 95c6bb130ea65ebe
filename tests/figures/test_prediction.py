"""Prediction beside measurement: an error where the same machine was measured, and nowhere else."""

import pytest

from labkit.figures import Shown, prediction


def texts(figure) -> dict[str, str]:
    return {trace.name: trace.text[0] for trace in figure.data[: len(figure.data) // 3]}


def test_the_error_is_told_where_the_same_machine_was_measured(b: Shown, predicted_b: Shown, on_h200: Shown):
    words = texts(prediction([b, predicted_b, on_h200]))
    error = predicted_b.summary.throughput.value / b.summary.throughput.value - 1
    assert words["B · simulated laptop"].endswith(f"<br>{100 * error:+.0f} % error")
    assert "error" not in words["B · simulated H200"]
    assert "error" not in words["B · CPU threads"]


def test_the_bars_are_as_long_as_the_numbers(b: Shown, predicted_b: Shown):
    figure = prediction([b, predicted_b])
    assert len(figure.data) == 6
    assert [trace.x[0] for trace in figure.data[:2]] == [
        b.summary.throughput.value,
        predicted_b.summary.throughput.value,
    ]
    assert figure.data[2].x[0] == pytest.approx(b.summary.step_interval["p50"].value / 1000)


def test_without_a_prediction_it_says_so(a: Shown, b: Shown):
    figure = prediction([a, b])
    assert not figure.data
    assert figure.layout.annotations[0].text == "nothing was predicted"
