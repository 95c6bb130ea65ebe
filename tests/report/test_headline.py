"""The headline says no more than the verdict allows."""

from labkit.figures import Shown
from labkit.report.headline import headline
from tests.report.recorded import record_of

CLAIM = "B is faster by 2.5× (2.4 to 2.6)"


def test_a_valid_comparison_is_the_headline(a: Shown, b: Shown):
    found = headline([a, b], [record_of(a), record_of(b)], CLAIM)
    assert (found.grade, found.sentence, found.reasons, found.aside) == ("VALID", CLAIM, (), None)


def test_a_weak_comparison_says_whose_weakness_it_is(a: Shown, b: Shown):
    found = headline([a, b], [record_of(a, "WEAK", ("only 12 completions",)), record_of(b)], CLAIM)
    assert (found.grade, found.sentence) == ("WEAK", CLAIM)
    assert found.reasons == ("A: only 12 completions",)


def test_an_invalid_result_has_no_number_above_the_page(a: Shown, b: Shown):
    found = headline([a, b], [record_of(a), record_of(b, "INVALID", ("2 ops failed",))], CLAIM)
    assert found.grade == "INVALID"
    assert not any(character.isdigit() for character in found.sentence)
    assert found.reasons == ("B: 2 ops failed",)
    assert found.aside == CLAIM


def test_without_a_comparison_the_throughput_is_told_with_its_kind(a: Shown, predicted_b: Shown):
    found = headline([a, predicted_b], [record_of(a), record_of(predicted_b)], None)
    assert found.sentence == "A: 2\u202f130\u202f000 items/s, measured on CPU threads."


def test_where_nothing_was_measured_the_prediction_is_named_as_one(predicted_b: Shown):
    found = headline([predicted_b], [record_of(predicted_b)], None)
    assert found.sentence.endswith("predicted, simulated laptop.")


def test_an_invalid_prediction_does_not_take_down_what_was_measured(a: Shown, predicted_b: Shown):
    assert (
        headline([a, predicted_b], [record_of(a), record_of(predicted_b, "INVALID", ("x",))], CLAIM).sentence
        == CLAIM
    )


def test_a_failed_run_that_left_nothing_is_named_by_its_id(a: Shown, b: Shown):
    failed = record_of(b, "INVALID", ("the run ended as failed",))
    found = headline([a], [record_of(a), failed], None)
    assert found.reasons == (f"{failed.id}: the run ended as failed",)


def test_nothing_at_all_is_said_as_such():
    assert headline([], [], None).sentence == "No run left anything to show."
