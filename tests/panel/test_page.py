"""What stands still: which slots a result fills, what it says, and that it stays small."""

import json
from dataclasses import replace

import pytest

from labkit import lab
from labkit.experiments import experiment
from labkit.figures.colours import GRADE_COLOURS
from labkit.figures.guess import Answer, Guess
from labkit.metrics.verdict import Verdict
from labkit.panel.page import EMPTY, PLOTLY, REQUEST_SLOTS, SLOTS, VIEW_SLOTS, page, runs_of, words
from labkit.panel.setting import Setting
from labkit.panel.state import Result
from labkit.panel.watch import PartOfRun
from labkit.result import Compared, Run

PIPELINE = experiment("pipeline")
SETTING = Setting(PIPELINE, PIPELINE.knobs(), "simulated:t4")
SMALL = {"image_size": 32, "batch_size": 4}


@pytest.fixture(scope="module")
def both() -> Compared:
    return lab.compare("pipeline", a={**SMALL, "prefetch": 0}, b={**SMALL, "prefetch": 4}, device="simulated:t4", steps=60, rounds=3)


@pytest.fixture(scope="module")
def run(both: Compared) -> Run:
    return both.b


def filled(result: Result) -> dict[str, dict]:
    return dict(page(result, runs_of(result)))


def test_a_run_alone_fills_every_slot_but_that_of_the_guess(run: Run):
    slots = filled(Result(run=run, b=run.shown("B")))
    assert list(slots) == [slot for slot in SLOTS if slot not in ("guess", *VIEW_SLOTS, *REQUEST_SLOTS)]


def test_the_views_that_were_asked_for_fill_their_slots(run: Run):
    result = Result(run=run, b=run.shown("B"), views=("why", "what if", "mistakes"), first_step=8)
    slots = filled(result)
    assert list(slots)[-len(VIEW_SLOTS) :] == list(VIEW_SLOTS)
    assert slots["why"][PLOTLY]["layout"]["title"]["text"].startswith("<b>From ideal to measured</b>")
    assert "INVALID" in slots["mistakes told"]["text/html"]
    assert "The critical path is mostly" in slots["critical path"]["text/plain"]
    assert not set(filled(replace(result, views=("why",)))) & {"what if", "mistakes"}


def test_while_it_runs_alone_only_what_is_cheap_is_drawn(run: Run):
    part = Result(part=PartOfRun(SETTING, None, run.trace, 8))
    assert list(filled(part)) == ["words", "throughput over time"]
    assert list(filled(replace(part, a=run.shown("A")))) == ["words", "side by side", "throughput over time"]


def test_alone_it_is_called_this_run(run: Run):
    assert [shown.label for shown in runs_of(Result(run=run, b=run.shown("B")))] == ["this run"]


def test_a_and_b_stand_side_by_side_under_their_names(both: Compared):
    result = Result(a=both.a.shown("A"), run=both.b, b=both.b.shown("B"), compared=both)
    assert [shown.label for shown in runs_of(result)] == ["A", "B"]
    titles = json.dumps(filled(result)["side by side"][PLOTLY]["layout"]["title"])
    assert "simulated T4" in titles


def test_measured_in_turns_the_sentence_comes_first(both: Compared):
    result = Result(a=both.a.shown("A"), run=both.b, b=both.b.shown("B"), compared=both)
    assert words(result, runs_of(result))[0] == f"{both.comparison.sentence}, in 3 rounds in turns."


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ((True, True), "not measured in turns"),
        ((False, False), "Both are predictions"),
        ((True, False), "do not take their ratio"),
    ],
)
def test_two_runs_that_did_not_take_turns_are_not_compared(both: Compared, measured: tuple[bool, bool], said: str):
    a, b = (replace(each.shown(label), measured=kind) for each, label, kind in zip((both.a, both.b), "AB", measured, strict=True))
    result = Result(a=a, run=both.b, b=b)
    assert said in words(result, runs_of(result))[0]


def test_the_verdict_is_that_of_what_is_shown(run: Run):
    result = Result(run=run, b=run.shown("B"), verdict=Verdict("WEAK", ("too short",)))
    assert "this run, WEAK: too short." in words(result, runs_of(result))


def test_a_verdict_is_a_badge_before_the_first_words_and_a_row_of_the_table(run: Run):
    shown = replace(run.shown("B"), measured=True, grade="WEAK")
    html = filled(Result(run=run, b=shown, verdict=Verdict("WEAK", ("few steps",))))["words"]["text/html"]
    assert html.index(">WEAK</span>") < html.index("<b>")
    assert "verdict" in html and GRADE_COLOURS["WEAK"] in html


def test_an_invalid_run_is_no_result_and_says_so_first(run: Run):
    shown = replace(run.shown("B"), grade="INVALID")
    result = Result(run=run, b=shown, verdict=Verdict("INVALID", ("an op failed",)))
    lines = words(result, runs_of(result))
    assert lines[0] == "No result: the verdict below says why."
    assert any("INVALID: an op failed" in line for line in lines)


def test_an_a_that_was_measured_earlier_is_weak_beside_b_until_both_are_measured_in_turns(both: Compared):
    a, b = (replace(side.shown(label), measured=True, grade="VALID") for side, label in ((both.a, "A"), (both.b, "B")))
    assert [shown.grade for shown in runs_of(Result(a=a, run=both.b, b=b))] == ["WEAK", "VALID"]
    assert [shown.grade for shown in runs_of(Result(a=a, run=both.b, b=b, compared=both))] == ["VALID", "VALID"]


def test_the_bottleneck_is_said_in_one_sentence(run: Run):
    result = Result(run=run, b=run.shown("B"))
    assert f"this run, predicted, simulated T4: {run.summary.bottleneck}" in words(result, runs_of(result))


def test_a_guess_has_its_figure(both: Compared):
    answer = Answer(1.4, None, None, "workers", "simulated T4", False)
    result = Result(a=both.a.shown("A"), run=both.b, b=both.b.shown("B"), guess=Guess(1.5, "workers"), predicted=answer)
    assert PLOTLY in filled(result)["guess"]


def test_nothing_to_show_fills_nothing():
    assert filled(Result()) == {}


def test_all_figures_of_a_and_b_stay_below_half_a_megabyte(both: Compared):
    result = Result(a=both.a.shown("A"), run=both.b, b=both.b.shown("B"), compared=both)
    assert len(json.dumps(list(filled(result).values()))) < 500_000


def test_an_empty_slot_shows_nothing_and_still_is_an_output():
    assert set(EMPTY.values()) == {""}


def test_words_are_escaped(run: Run):
    hostile = replace(run, record=replace(run.record, notes=("<script>alert(1)</script>",)))
    html = filled(Result(run=hostile, b=run.shown("B")))["words"]["text/html"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
