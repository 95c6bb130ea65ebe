"""A and B, and the predictions beside them, are told apart in one way everywhere."""

from dataclasses import replace

from labkit.figures import Shown, side_by_side
from labkit.figures.look import looks


def test_a_is_muted_and_b_saturated(a: Shown, b: Shown):
    first, second = looks([a, b])
    assert (first.slot, second.slot) == (0, 1)
    assert first.lane_marker("#0B7A6F")["color"] == "rgba(11,122,111,0.55)"
    assert second.lane_marker("#0B7A6F")["color"] == "rgba(11,122,111,1)"


def test_a_prediction_has_the_colour_of_the_run_that_it_predicts(a: Shown, b: Shown, predicted_b: Shown):
    of_a, of_b, predicted = looks([a, b, predicted_b])
    assert predicted.colour == of_b.colour != of_a.colour
    assert "pattern" in predicted.marker("#000000") and "pattern" not in of_b.marker("#000000")


def test_runs_of_other_names_have_other_colours(a: Shown, b: Shown, on_h200: Shown):
    colours = [look.colour for look in looks([a, b, replace(on_h200, label="B on h200")])]
    assert len(set(colours)) == 3


def test_a_run_alone_or_with_its_prediction_only_is_saturated(b: Shown, predicted_b: Shown):
    assert [look.slot for look in looks([b])] == [1]
    assert [look.slot for look in looks([b, predicted_b])] == [1, 1]


def test_what_may_not_be_relied_on_is_paler(b: Shown):
    [valid, weak, invalid] = [looks([replace(b, grade=grade)])[0] for grade in ("VALID", "WEAK", "INVALID")]
    assert [look.marker("#0B7A6F")["color"] for look in (valid, weak, invalid)] == [
        "rgba(11,122,111,1)",
        "rgba(11,122,111,0.5)",
        "rgba(11,122,111,0.25)",
    ]
    assert valid.line_colour == valid.colour
    assert weak.line_colour.endswith(",0.5)") and invalid.line_colour.endswith(",0.25)")


def test_a_figure_says_which_run_is_weak(a: Shown, b: Shown):
    title = side_by_side([a, replace(b, grade="WEAK")]).layout.title.text
    assert "A: measured on CPU threads" in title and "B: measured on CPU threads: WEAK" in title
