"""Every result is VALID, WEAK or INVALID, for stated reasons."""

from dataclasses import replace

import numpy as np
import pytest

from labkit.metrics import Verdict, judge, summarize
from labkit.metrics.verdict import DRAINED, SIMULATED
from labkit.runner import record
from labkit.schedule import Status
from labkit.trace import Mark, Trace
from tests.metrics.recorded import completing, recorded, row

STEADY = completing(list(range(100, 4100, 100)))


def judged(trace: Trace = STEADY, warmup_steps: int = 5, **how: object) -> Verdict:
    return judge(summarize(trace, warmup_steps=warmup_steps), trace, warmup_steps=warmup_steps, **how)


def test_a_steady_run_with_warm_up_is_valid_without_reasons() -> None:
    assert judged() == Verdict("VALID", ())


def test_a_prediction_says_that_it_is_one() -> None:
    assert judged(measured=False) == Verdict("PREDICTED", (SIMULATED,))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"status": "failed"}, "the run ended as failed"),
        ({"status": "cancelled"}, "the run was cancelled"),
        ({"drained": False}, "the device was not drained: ops had not ended when the clock was read"),
    ],
)
def test_a_run_that_did_not_end_well_is_invalid(how: dict, reason: str) -> None:
    assert judged(**how) == Verdict("INVALID", (reason,))


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.FAILED, "1 op failed"),
        (Status.PENDING, "the device was not drained: 1 op had not ended when the clock was read"),
    ],
)
def test_failed_and_unfinished_ops_make_it_invalid(status: Status, reason: str) -> None:
    columns = dict(STEADY.columns)
    columns["status"] = columns["status"].copy()
    columns["status"][20] = status
    assert judged(replace(STEADY, columns=columns)) == Verdict("INVALID", (reason,))


@pytest.mark.parametrize(
    ("trace", "reason"),
    [(recorded(), "nothing completed"), (completing([100, 200]), "nothing completed after the warm-up")],
)
def test_without_completions_it_is_invalid(trace: Trace, reason: str) -> None:
    assert judged(trace) == Verdict("INVALID", (reason,))


def test_a_trace_that_could_not_be_summarised_is_invalid() -> None:
    assert judge(None, STEADY, warmup_steps=5) == Verdict("INVALID", ("the trace could not be summarised",))


def test_without_warm_up_it_is_weak() -> None:
    assert judged(warmup_steps=0) == Verdict("WEAK", ("no warm-up was excluded",))


@pytest.mark.parametrize(
    ("n", "verdict"),
    [(20, Verdict("VALID", ())), (19, Verdict("WEAK", ("only 19 completions counted; 20 are wanted",)))],
)
def test_twenty_completions_are_wanted(n: int, verdict: Verdict) -> None:
    assert judged(completing(list(range(100, 100 * (5 + n) + 1, 100)))) == verdict


def test_dropped_rows_make_it_weak() -> None:
    assert judged(replace(STEADY, dropped=12_345)) == Verdict(
        "WEAK", ("the trace was full: 12,345 rows dropped",)
    )


def test_step_intervals_that_spread_widely_make_it_weak() -> None:
    even, uneven = (completing(np.cumsum([100 - by, 100, 100 + by] * 21).tolist()) for by in (25, 60))
    assert judged(even) == Verdict("VALID", ())
    reason = "step intervals spread by 120 % of their median (interquartile range; up to 50 % is let pass)"
    assert judged(uneven) == Verdict("WEAK", (reason,))


def test_more_threads_than_cores_make_it_weak() -> None:
    warning = "more busy threads than cores: 8 workers + 1 compute on 2 cores; they slow each other down"
    assert judged(replace(STEADY, meta={"warnings": [warning]})) == Verdict("WEAK", (warning,))


def test_a_knob_turned_inside_the_window_makes_it_weak_and_one_turned_before_does_not() -> None:
    marks = (
        Mark(1000, 9, "prefetch", 0, 4),
        Mark(2000, 19, "pin", False, True),
        Mark(2500, 24, "prefetch", 4, 0),
    )
    assert judged(replace(STEADY, marks=marks)) == Verdict(
        "WEAK", ("pin, prefetch turned inside the window",)
    )
    assert judged(replace(STEADY, marks=(Mark(100, 0, "prefetch", 0, 4),))).grade == "VALID"


def test_what_makes_it_invalid_comes_first_and_doubts_follow() -> None:
    assert judged(recorded(row(0, "step", "compute", 0, 9)), warmup_steps=0, measured=False) == Verdict(
        "INVALID", ("nothing completed", "no warm-up was excluded", SIMULATED)
    )


def test_the_facts_say_what_speaks_neither_for_nor_against_it() -> None:
    assert judged().facts[:2] == (DRAINED, "35 completions counted; 5 warm-up steps excluded")
    assert judged(warmup_steps=0).facts[1] == "39 completions counted"


def test_a_run_that_was_not_drained_does_not_say_that_it_was() -> None:
    assert DRAINED not in judged(drained=False).facts


def test_facts_do_not_make_two_verdicts_differ() -> None:
    assert Verdict("VALID", (), ("one",)) == Verdict("VALID", (), ("two",))


def test_the_run_record_holds_this_verdict() -> None:
    assert record.Verdict is Verdict
