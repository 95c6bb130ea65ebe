"""The side-by-side table: a column a run, an error column where one can be told, and never a number without its kind."""

from dataclasses import replace

import pytest

from labkit.figures import Shown
from labkit.metrics.metric import Metric
from labkit.report import as_html, as_text, side_by_side_table


def row(rows: list[list[str]], name: str) -> list[str]:
    return next(each for each in rows if each[0] == name)


def test_a_heading_says_what_was_measured_and_what_predicted(a: Shown, predicted_b: Shown):
    heading = side_by_side_table([a, replace(predicted_b, device_label="H200")])[0]
    assert heading == ["metric", "A\nmeasured on CPU threads", "B\npredicted, simulated H200"]


def test_numbers_have_units_and_three_digits(a: Shown, b: Shown):
    rows = side_by_side_table([a, b])
    assert row(rows, "throughput") == [
        "throughput",
        "2\u202f130\u202f000 items/s",
        "5\u202f330\u202f000 items/s",
    ]
    assert row(rows, "step interval p50") == ["step interval p50", "15 µs", "6 µs"]
    assert row(rows, "busy: compute")[1] == "40 %"
    assert row(rows, "steps in all") == ["steps in all", "40", "160"]


def test_what_is_absent_is_a_dash(a: Shown, b: Shown):
    assert row(side_by_side_table([a, b]), "step interval p99")[1] == "–"


def test_a_prediction_of_a_measured_run_has_an_error_column(b: Shown, predicted_b: Shown):
    rows = side_by_side_table([b, predicted_b])
    assert rows[0][3] == "error\nof B"
    error = predicted_b.summary.throughput.value / b.summary.throughput.value - 1
    assert row(rows, "throughput")[3] == f"{100 * error:+.0f} %"
    assert row(rows, "busy: compute")[3] == "–"
    assert row(rows, "bottleneck")[3] == ""
    assert {len(each) for each in rows} == {4}


def test_what_if_on_another_machine_has_no_error_column(b: Shown, predicted_b: Shown):
    rows = side_by_side_table([b, replace(predicted_b, predicts=None)])
    assert not any(cell.startswith("error") for cell in rows[0])


def test_predictions_can_be_named_by_place(a: Shown, b: Shown, predicted_b: Shown):
    guess = replace(predicted_b, label="guess", predicts=None)
    assert side_by_side_table([a, b, guess], predicts={2: 1}) == side_by_side_table(
        [a, b, replace(guess, predicts="B")]
    )


def test_energy_has_a_row_where_any_run_knows_it_and_none_where_none_does(a: Shown, b: Shown):
    known = Metric("energy per item", 1.5, "J/item", 9, "power ÷ throughput", "lower")
    absent = replace(known, value=None, n=0, reason="no sensor")
    runs = [replace(a, energy={known.name: known, "cost per million items": absent}), replace(b, energy={known.name: absent})]
    rows = side_by_side_table(runs)
    assert row(rows, "energy per item") == ["energy per item", "1.5 J/item", "–"]
    assert "cost per million items" not in [each[0] for each in rows]
    assert not any("energy" in each[0] for each in side_by_side_table([a, runs[1]]))


def test_verdicts_have_a_row_of_their_own(a: Shown, b: Shown, predicted_b: Shown):
    rows = side_by_side_table([a, b, predicted_b], grades=["VALID", "INVALID"])
    assert rows[1] == ["verdict", "VALID", "INVALID", "–", ""]


def test_dropped_rows_are_told_where_there_are_any(a: Shown):
    assert not any(each[0] == "rows not kept" for each in side_by_side_table([a]))
    lossy = replace(a, summary=replace(a.summary, dropped=7))
    assert row(side_by_side_table([lossy]), "rows not kept") == ["rows not kept", "7"]


def test_the_text_is_aligned_and_as_wide_as_allowed(a: Shown, b: Shown, predicted_b: Shown):
    text = as_text(side_by_side_table([a, b, predicted_b]), width=80)
    assert max(map(len, text.split("\n"))) <= 80
    [throughput] = [line for line in text.split("\n\n")[0].split("\n") if line.startswith("throughput")]
    [interval] = [line for line in text.split("\n\n")[0].split("\n") if line.startswith("step interval p50")]
    assert len(throughput) == len(interval)


def test_columns_that_do_not_fit_go_into_further_blocks_each_with_the_names(a: Shown, b: Shown):
    blocks = as_text(side_by_side_table([a, b, a, b, a]), width=60).split("\n\n")
    assert len(blocks) > 1
    assert all("throughput" in block and "metric" in block for block in blocks)
    assert sum(block.count("measured on CPU") for block in blocks) == 5


def test_an_error_column_stays_beside_its_prediction(a: Shown, b: Shown, predicted_b: Shown):
    for width in range(40, 130, 7):
        for block in as_text(side_by_side_table([a, b, predicted_b]), width=width).split("\n\n"):
            assert ("error" in block) == ("predicted" in block)


def test_words_keep_their_order_when_they_are_wrapped():
    text = as_text([["metric", "A"], ["bottleneck", "the quick brown fox jumps over the lazy dog"]], width=60)
    assert " ".join(text.split("─")[-1].split()) == "bottleneck the quick brown fox jumps over the lazy dog"


def test_html_is_escaped():
    html = as_html([["metric", "<b>A</b>\n<i>x</i>"], ["<u>", "<script>alert(1)</script>"], ["s", "<s>1</s>"]])
    assert "<script>" not in html and "<b>" not in html and "<i>" not in html and "<u>" not in html and "<s>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("grade", ["VALID", "WEAK", "INVALID"])
def test_a_verdict_is_a_badge(grade: str):
    assert f'<span class="badge {grade}">{grade}</span>' in as_html([["metric", "A"], ["verdict", grade]])
