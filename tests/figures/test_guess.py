"""The guess beside the answer: exact errors, words for what is absent, and nothing simulated drawn as if it were measured."""

from dataclasses import replace

import plotly.graph_objects as go
import pytest

from labkit.errors import LabkitError
from labkit.figures import Answer, Guess, guess, guess_errors
from labkit.figures.guess import ratio_text

GUESSED = Guess(1.5, "workers")
PREDICTED = Answer(1.4, None, None, "compute", "H200", measured=False)
MEASURED = Answer(1.25, 1.2, 1.3, "compute", "CPU threads", measured=True)
NONE = Guess(None, None)


def rows(figure: go.Figure) -> list[str]:
    """The words of the three rows."""
    words = [note.text for note in figure.layout.annotations if note.text != "no difference"]
    return [text.replace("<b>", "").replace("</b>", "") for text in words]


def ends(figure: go.Figure) -> list[go.Scatter]:
    """The markers at the ratios."""
    return [trace for trace in figure.data if trace.mode == "markers"]


def test_errors_are_the_ratio_to_the_measurement_less_one():
    off = guess_errors(Guess(1.5, "workers"), replace(PREDICTED, ratio=1.0), MEASURED)
    assert (off.guess, off.prediction) == pytest.approx((0.2, -0.2))
    assert (off.guess_inside, off.prediction_inside) == (False, False)
    assert (off.guess_right, off.prediction_right) == (False, True)


def test_what_lies_in_the_interval_is_inside_its_ends_included():
    assert guess_errors(Guess(1.2), replace(PREDICTED, ratio=1.3), MEASURED).guess_inside is True
    assert guess_errors(Guess(1.2), replace(PREDICTED, ratio=1.3), MEASURED).prediction_inside is True
    assert guess_errors(Guess(1.25), None, replace(MEASURED, low=None, high=None)).guess_inside is None


@pytest.mark.parametrize("answer", [None, Answer(None, None, None, None, "CPU threads", True, "it failed")])
def test_without_a_measurement_there_are_no_errors(answer: Answer | None):
    off = guess_errors(GUESSED, PREDICTED, answer)
    assert {off.guess, off.prediction, off.guess_inside, off.prediction_inside, off.guess_right, off.prediction_right} == {None}


def test_without_a_guess_the_prediction_still_has_its_error():
    off = guess_errors(NONE, PREDICTED, MEASURED)
    assert (off.guess, off.guess_inside, off.guess_right) == (None, None, None)
    assert off.prediction == pytest.approx(0.12)


@pytest.mark.parametrize("ratio", [0.0, -1.5, float("nan"), float("inf")])
def test_a_ratio_that_is_none_is_refused(ratio: float):
    with pytest.raises(LabkitError, match=r"a ratio B ÷ A of .* is not allowed; allowed: more than 0"):
        guess_errors(Guess(ratio), None, None)


def test_each_row_says_its_value_and_its_error():
    assert rows(guess(GUESSED, PREDICTED, MEASURED)) == [
        "guessed 1.50×, 20 % too high",
        "predicted 1.40×, 12 % too high · simulated H200",
        "measured 1.25× (1.20 to 1.30) · CPU threads",
    ]


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.25, "guessed 1.25×, exactly right"),
        (1.22, "guessed 1.22×, 2.4 % too low, inside the interval"),
        (1.1, "guessed 1.10×, 12 % too low"),
        (25.0, "guessed 25×, 1\u202f900 % too high"),
        (0.05, "guessed 0.05×, 96 % too low"),
    ],
)
def test_the_error_is_told_with_its_direction(ratio: float, words: str):
    assert rows(guess(Guess(ratio), None, MEASURED))[0] == words


def test_the_bottleneck_guessed_stands_against_the_one_found():
    title = guess(GUESSED, PREDICTED, MEASURED).layout.title.text
    assert "Bottleneck of B: guessed workers (wrong), predicted compute (right), found compute" in title
    assert "guessed workers, predicted compute, none found yet" in guess(GUESSED, PREDICTED, None).layout.title.text
    assert "Bottleneck" not in guess(Guess(1.5), None, None).layout.title.text


def test_what_is_absent_is_said_in_words_with_its_reason():
    failed = Answer(None, None, None, None, "H200", False, "the run failed: <out> of memory")
    assert rows(guess(GUESSED, failed, None)) == [
        "guessed 1.50×",
        "not predicted: the run failed: &lt;out&gt; of memory · simulated H200",
        "not measured yet",
    ]
    assert rows(guess(NONE, None, MEASURED))[:2] == ["no guess", "no prediction"]


def test_with_nothing_at_all_the_figure_says_so():
    figure = guess(NONE, None, None)
    assert not figure.data
    assert rows(figure) == ["no guess<br>no prediction<br>not measured yet"]


def test_only_what_was_measured_is_solid():
    figure = guess(GUESSED, PREDICTED, MEASURED)
    assert [trace.marker.symbol for trace in ends(figure)] == ["diamond-open", "circle-open", "circle"]
    stems = [trace for trace in figure.data if trace.mode == "lines"]
    assert [trace.line.dash for trace in stems] == ["dash", "dash", "solid"]


def test_an_answer_that_was_simulated_is_hollow_and_says_so():
    figure = guess(GUESSED, None, replace(MEASURED, measured=False, label="H200"))
    assert ends(figure)[-1].marker.symbol == "circle-open"
    assert rows(figure)[-1] == "simulated 1.25× (1.20 to 1.30) · H200"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (replace(MEASURED, label="measured"), "measured 1.25× (1.20 to 1.30)"),
        (replace(MEASURED, label="measured, not in turns"), "measured 1.25× (1.20 to 1.30) · not in turns"),
        (replace(MEASURED, ratio=None, label="measured", reason="it failed"), "not measured: it failed"),
    ],
)
def test_a_label_does_not_repeat_the_verb(answer: Answer, words: str):
    assert rows(guess(GUESSED, None, answer))[-1] == words


def test_a_prediction_says_that_it_is_simulated_whatever_its_label():
    for label, words in {"": "simulated", "predicted": "simulated", "Simulated T4": "Simulated T4", "T4": "simulated T4"}.items():
        assert rows(guess(NONE, replace(PREDICTED, label=label), None))[1] == f"predicted 1.40× · {words}"


def test_everything_is_on_one_axis_with_no_difference_on_it():
    figure = guess(Guess(8.0), replace(PREDICTED, ratio=0.5), MEASURED)
    assert [trace.x[0] for trace in ends(figure)] == [8.0, 0.5, 1.25]
    axis = figure.layout.xaxis
    assert axis.type == "log" and 1.0 in axis.tickvals
    low, high = (10**end for end in axis.range)
    assert low < 0.5 and high > 8.0
    assert {(shape.x0, shape.x1) for shape in figure.layout.shapes} == {(1, 1)}
    assert [(trace.x[0], trace.x[1]) for trace in figure.data if trace.mode == "lines+markers"] == [(1.2, 1.3)]


@pytest.mark.parametrize(("ratio", "text"), [(1.5, "1.50×"), (0.5, "0.50×"), (30, "30×"), (0.02, "0.02×"), (12.34, "12.3×")])
def test_ratios_have_three_digits_at_most(ratio: float, text: str):
    assert ratio_text(ratio) == text


@pytest.mark.parametrize("theme", ["either", "light", "dark"])
def test_the_page_shines_through(theme: str):
    assert guess(GUESSED, PREDICTED, MEASURED, theme).layout.template.layout.plot_bgcolor == "rgba(0,0,0,0)"
