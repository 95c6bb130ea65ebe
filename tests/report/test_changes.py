"""The two columns beside A and B: what changed, whether that is better, and which way would be a regression."""

import pytest

from labkit.figures.shown import Shown
from labkit.metrics import Metric, Ratio, summarize
from labkit.metrics.gate import metrics_of
from labkit.report.changes import change_words, with_changes, worse_words
from labkit.report.table import as_text, side_by_side_table
from tests.metrics.virtual_runs import pipeline, run

SLOW, FAST = (summarize(run(lambda device, ahead=ahead: pipeline(device, 260, ahead)), warmup_steps=10) for ahead in (0, 4))


def metric(value: float | None, better: str | None = "higher") -> Metric:
    return Metric("", value, "items/s", 9, "", better)


@pytest.mark.parametrize(
    ("a", "b", "better", "words"),
    [
        (100, 143, "higher", "+43.0 %: better"),
        (100, 90, "higher", "-10.0 %: worse"),
        (100, 143, "lower", "+43.0 %: worse"),
        (100, 90, "lower", "-10.0 %: better"),
        (100, 90, None, "-10.0 %"),
        (100, 100.04, "higher", "no change"),
        (100, 957, "higher", "×9.57: better"),
        (0.0001, 0.9, "higher", "over ×1000: better"),
        (0, 0.9, "higher", "from 0: better"),
        (0, 0, "higher", "no change"),
        (None, 1, "higher", "–"),
        (1, None, "higher", "–"),
    ],
)
def test_a_change_says_whether_it_is_better(a: float | None, b: float | None, better: str | None, words: str):
    assert change_words(metric(a, better), metric(b, better)) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Ratio(1.43, 1.38, 1.49, 9), "+43.0 % (+38.0 % to +49.0 %): better"),
        (Ratio(1.0, 0.98, 1.03, 9), "no difference shown (-2.0 % to +3.0 %)"),
        (Ratio(None, None, None, 1, "absent"), "+20.0 %, no interval"),
    ],
)
def test_where_both_were_measured_in_turns_the_interval_decides(ratio: Ratio, words: str):
    assert change_words(metric(100), metric(120), ratio) == words


@pytest.mark.parametrize("name", metrics_of(FAST))
def test_every_metric_says_which_way_is_worse(name: str):
    rows = with_changes(side_by_side_table([Shown("A", "toy", False, SLOW, None), Shown("B", "toy", False, FAST, None)]), SLOW, FAST)
    *_, change, worse = next(row for row in rows if row[0] == name)
    expected = "–" if name.startswith("busy: ") else "more" if name.startswith(("step interval", "batch age")) else "less"
    assert worse == worse_words(metrics_of(FAST)[name]) == expected
    assert change.endswith((": better", ": worse")) or worse == "–" or change == "no change"


def test_the_table_with_its_changes_fits_a_terminal_in_one_block():
    shown = [Shown("A", "CPU threads", True, SLOW, None, grade="VALID"), Shown("B", "CPU threads", True, FAST, None, grade="VALID")]
    rows = with_changes(side_by_side_table(shown, grades=["VALID", "VALID"]), SLOW, FAST)
    assert {len(row) for row in rows} == {5}
    text = as_text(rows, 100)
    assert "\n\n" not in text and max(map(len, text.splitlines())) <= 100
