"""A beside B in turns, on the virtual clock with noise of the test's own, so that the truth is known."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from labkit.metrics.sequential import LOOKS, Precision
from labkit.runner.compare import Side, compare_sides, interleave, until_narrow
from labkit.runner.execute import execute
from labkit.runner.job import Job, Outcome
from tests.runner.naps import Naps, nap_job


class Here:
    """Stands for the worker pool: runs jobs in this process and remembers their order."""

    def __init__(self, disturb: Callable[[], float] = lambda: 1.0):
        self.order: list[int] = []
        self._disturb = disturb

    def run(self, job: Job, on_frame: Any = None) -> Outcome:
        self.order.append(job.knobs.nap_ms)
        slowed = job.knobs.changed(nap_ms=round(job.knobs.nap_ms * self._disturb()))
        return execute(Job(job.recipe, slowed, job.device, job.budget, machine=job.machine), Naps())


def sides(a_ms: int, b_ms: int, rounds: int, pool: Here) -> list[Side]:
    jobs = [nap_job(nap_ms=a_ms), nap_job(nap_ms=b_ms)]
    outcomes = interleave(jobs, rounds, pool)  # type: ignore[arg-type]  (a stand-in for Workers)
    return [Side(label, job, tuple(runs)) for label, job, runs in zip("AB", jobs, outcomes, strict=True)]


def test_rounds_alternate_their_order() -> None:
    pool = Here()
    sides(10, 20, 4, pool)
    assert pool.order == [10, 20, 20, 10, 10, 20, 20, 10]


def test_half_the_time_is_twice_the_throughput_and_drift_that_both_share_cancels() -> None:
    level = [1.0]

    def drift() -> float:
        level[0] *= 1.02
        return level[0]

    comparison = compare_sides(*sides(2000, 1000, 8, Here(drift)))
    ratio = comparison.ratios["throughput"]
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 2.0 < ratio.high
    assert ratio.high - ratio.low < 0.1
    assert comparison.sentence.startswith("B against A, throughput: faster by 2.0")


def test_the_same_setting_against_itself_shows_no_difference_19_times_in_20() -> None:
    shown = 0
    for seed in range(40):
        noise = random.Random(seed)
        comparison = compare_sides(*sides(1000, 1000, 5, Here(lambda noise=noise: noise.lognormvariate(0, 0.1))))
        shown += "no difference shown" in comparison.sentence
    assert shown >= 35, "38 of 40 are expected"


def until(a_ms: int, b_ms: int, pool: Here, precision: Precision, clock: Callable[[], float]) -> list[Side]:
    jobs = [nap_job(nap_ms=a_ms), nap_job(nap_ms=b_ms)]
    outcomes = interleave(jobs, 90, pool, enough=until_narrow(jobs, precision, clock))  # type: ignore[arg-type]
    return [Side(label, job, tuple(runs)) for label, job, runs in zip("AB", jobs, outcomes, strict=True)]


def test_it_ends_with_the_first_look_at_which_the_interval_is_narrow() -> None:
    a, b = until(1000, 2000, Here(), Precision(0.05), lambda: 0.0)
    assert len(a.outcomes) == len(b.outcomes) == 5
    comparison = compare_sides(a, b, Precision(0.05))
    assert (comparison.sentence, comparison.rounds) == ("B against A, throughput: slower by 2.00× (2.00 to 2.00)", 5)


def test_noise_makes_it_go_on() -> None:
    noise = random.Random(1)
    a, b = until(1000, 1000, Here(lambda: noise.lognormvariate(0, 0.06)), Precision(0.05), lambda: 0.0)
    assert len(a.outcomes) in LOOKS[1:]
    assert "no difference shown" in compare_sides(a, b, Precision(0.05)).sentence


def test_a_source_that_never_settles_ends_by_its_budget_as_weak_with_its_data() -> None:
    noise, clock = random.Random(2), iter(range(1000))
    precision = Precision(0.01, budget_s=9)
    a, b = until(1000, 1000, Here(lambda: noise.lognormvariate(0, 0.5)), precision, lambda: float(next(clock)))
    assert len(a.outcomes) == len(b.outcomes) == 9
    comparison = compare_sides(a, b, precision)
    assert comparison.sentence.endswith("(WEAK: 9 s were spent before the interval was ±1 % narrow; 9 rounds)")
    assert comparison.ratios["throughput"].low is not None
    assert comparison.as_dict()["ratios"]["throughput"]["detectable"] > 0.1


def test_a_source_that_never_settles_ends_after_the_last_look_and_the_reason_is_not_the_budget() -> None:
    noise, precision = random.Random(2), Precision(0.01, budget_s=9)
    a, b = until(1000, 1000, Here(lambda: noise.lognormvariate(0, 0.5)), precision, lambda: 0.0)
    assert len(a.outcomes) == len(b.outcomes) == LOOKS[-1] == 90
    comparison = compare_sides(a, b, precision)
    assert comparison.weak == "the interval was not ±1 % narrow after 90 rounds, the most that are made"
    assert comparison.sentence.endswith(f"(WEAK: {comparison.weak})")
    assert comparison.as_dict()["weak"] == comparison.weak


def test_every_metric_that_the_rounds_have_gets_its_interval_and_a_percentile_that_no_round_has_gets_none() -> None:
    ratios = compare_sides(*sides(1000, 2000, 3, Here())).ratios
    assert {"throughput", "step interval mean", "step interval p50", "batch age p50", "busy: compute"} <= set(ratios)
    assert ratios["step interval p50"].value == pytest.approx(2.0)
    assert "step interval p99" not in ratios


def test_a_round_without_a_metric_is_not_left_out_of_its_ratio() -> None:
    few, many = (tuple(execute(nap_job(steps=steps), Naps()) for steps in each) for each in ((10, 110, 110), (110, 110, 110)))
    a, b = (Side(label, nap_job(), outcomes) for label, outcomes in zip("AB", (few, many), strict=True))
    ratio = compare_sides(a, b).ratios["step interval p99"]
    assert (ratio.value, ratio.n) == (None, 2)
    assert ratio.reason.startswith("absent in 1 of 3 rounds: p99 needs at least 100 samples")


def test_an_invalid_side_is_no_headline() -> None:
    short = tuple(execute(nap_job(steps=2), Naps()) for _ in range(3))
    a, b = (Side(label, nap_job(warmup=9), short) for label in "AB")
    comparison = compare_sides(a, b)
    assert comparison.sentence == "no comparison: side A is INVALID: nothing completed after the warm-up"
    assert comparison.weak is None


def test_two_rounds_are_weak() -> None:
    assert "WEAK: 2 rounds only" in compare_sides(*sides(1000, 2000, 2, Here())).sentence


def test_a_side_that_fails_ends_the_comparison_and_is_named() -> None:
    jobs = [nap_job(), nap_job(fails_at=3)]
    outcomes = interleave(jobs, 5, Here())  # type: ignore[arg-type]
    a, b = (Side(label, job, tuple(runs)) for label, job, runs in zip("AB", jobs, outcomes, strict=True))
    assert len(b.outcomes) == 1
    assert "no comparison: a side failed: op 'nap': ValueError" in compare_sides(a, b).sentence
    record = b.record("id", datetime.now(UTC), ())
    assert (record.status, record.verdict.grade) == ("failed", "INVALID")


def test_the_record_of_a_side_pools_its_rounds() -> None:
    a, _ = sides(10, 20, 4, Here())
    record = a.record("id", datetime.now(UTC), ("a note",))
    assert record.metrics["throughput"]["n"] == 40
    assert record.notes[0] == "a note"
    assert "4 rounds in turns with the other side" in record.verdict.reasons[-1]


def test_the_verdict_of_a_side_is_that_of_its_worst_round() -> None:
    job = nap_job(steps=30)
    good = execute(job, Naps())
    short = execute(nap_job(steps=5), Naps())
    measured = replace(job, device="cpu")
    traces = [replace(out.trace, meta={**out.trace.meta, "measured": True}) for out in (short, good)]
    outcomes = tuple(replace(out, trace=trace) for out, trace in zip((short, good), traces, strict=True))
    verdict = Side("A", measured, outcomes).record("id", datetime.now(UTC), ()).verdict
    assert verdict.grade == "WEAK"
    assert "only 5 completions counted" in verdict.reasons[0]


def test_what_speaks_against_several_rounds_is_said_once() -> None:
    job = replace(nap_job(steps=30), device="cpu")
    outcomes = tuple(execute(nap_job(steps=steps), Naps()) for steps in (5, 7, 9))
    outcomes = tuple(replace(out, trace=replace(out.trace, meta={**out.trace.meta, "measured": True})) for out in outcomes)
    reasons = Side("A", job, outcomes).record("id", datetime.now(UTC), ()).verdict.reasons
    assert [reason for reason in reasons if "completions" in reason] == [
        "only 5 completions counted; 20 are wanted; such in 3 of 3 rounds"
    ]
