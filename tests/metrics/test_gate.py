"""The gate: the direction is right for every metric, absent is never fine, and an undecided rule is not a failure."""

from dataclasses import replace

import pytest

from labkit.errors import ExperimentError
from labkit.metrics import Metric, Ratio, summarize
from labkit.metrics.gate import (
    Judged,
    change_text,
    check_before,
    check_rule,
    judge_rule,
    metrics_of,
    read_rule,
)
from tests.metrics.virtual_runs import pipeline, run

KNOWN = metrics_of(summarize(run(lambda device: pipeline(device, 260, 2)), warmup_steps=10))
WORSE = {"higher": "-", "lower": "+"}


def metric(value: float | None, better: str = "higher", reason: str | None = None) -> Metric:
    return Metric("throughput", value, "items/s", 9, "", better, reason)


def judged(text: str, a: float, b: float, ratio: Ratio | None = None) -> Judged:
    rule = read_rule(text)
    better = KNOWN[rule.metric].better
    return judge_rule(rule, metric(a, better), metric(b, better), ratio)


@pytest.mark.parametrize(
    ("text", "name", "share"),
    [
        ("throughput:-5%", "throughput", -0.05),
        ("p99:+10%", "step interval p99", 0.1),
        (" Batch Age p95 : + 2.5 % ", "batch age p95", 0.025),
        ("busy: compute:-3%", "busy: compute", -0.03),
    ],
)
def test_a_rule_is_read(text: str, name: str, share: float):
    rule = read_rule(text)
    assert (rule.metric, rule.share) == (name, pytest.approx(share))


@pytest.mark.parametrize("text", ["", "throughput", "throughput:5%", "throughput:-5", "throughput:-%", ":-5%", "throughput:-0%", "throughput:-nan%"])
def test_what_is_no_rule_is_refused(text: str):
    with pytest.raises(ExperimentError, match="rule"):
        read_rule(text)


@pytest.mark.parametrize("name", [name for name, metric in KNOWN.items() if metric.better])
def test_of_every_metric_the_worse_direction_is_allowed_and_the_better_one_refused(name: str):
    better = KNOWN[name].better
    check_rule(read_rule(f"{name}:{WORSE[better]}5%"), KNOWN)
    opposite = "+" if WORSE[better] == "-" else "-"
    with pytest.raises(ExperimentError, match="that is an improvement; did you mean"):
        check_rule(read_rule(f"{name}:{opposite}5%"), KNOWN)
    limit, worse, best = f"{name}:{WORSE[better]}5%", (0.9 if better == "higher" else 1.1), (1.1 if better == "higher" else 0.9)
    assert judged(limit, 100, 100 * worse).result == "failed"
    assert judged(limit, 100, 100 * best).result == "passed"
    assert judged(limit, 100, 100).result == "passed"


def test_a_metric_of_which_neither_way_is_better_has_no_regression():
    with pytest.raises(ExperimentError, match="neither more nor less of 'busy: compute' is better"):
        check_rule(read_rule("busy: compute:-5%"), KNOWN)


def test_a_metric_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(ExperimentError, match="there is no metric 'speed'; there are: throughput, overlap"):
        check_rule(read_rule("speed:-5%"), KNOWN)


def test_just_at_the_limit_is_allowed():
    assert judged("throughput:-5%", 100, 95).result == "passed"
    assert judged("throughput:-5%", 100, 94.99).result == "failed"


def test_absent_is_never_fine():
    absent = replace(metric(None), reason="p99 needs at least 100 samples")
    for pair in ((absent, metric(1)), (metric(1), absent)):
        told = judge_rule(read_rule("throughput:-5%"), *pair)
        assert told.result == "failed" and "is absent: p99 needs at least 100 samples" in told.words
    assert judge_rule(read_rule("throughput:-5%"), None, metric(1)).result == "failed"


@pytest.mark.parametrize(
    ("text", "a", "b", "result"),
    [("throughput:-5%", 0, 5, "passed"), ("throughput:-5%", 0, 0, "passed"), ("p50:+5%", 0, 0, "passed"), ("p50:+5%", 0, 1, "failed")],
)
def test_from_nothing_only_a_change_for_the_worse_is_too_much(text: str, a: float, b: float, result: str):
    told = judged(text, a, b)
    assert (told.result, told.change) == (result, None)


def test_without_an_interval_a_rule_of_a_comparison_in_turns_is_undecided():
    told = judged("p99:+5%", 100, 200, Ratio(None, None, None, 3, "absent in 2 of 5 rounds"))
    assert told.result == "undecided"
    assert told.words == (
        "step interval p99 changed by +100.0 % over all rounds, without an interval (absent in 2 of 5 rounds); allowed: +5.0 %;"
        " WEAK: longer rounds would decide it"
    )


@pytest.mark.parametrize("text", ["speed:-5%", "throughput:+5%", "overlap:+1%", "p99:-1%"])
def test_a_rule_is_refused_before_anything_is_measured(text: str):
    check_before([read_rule("throughput:-5%"), read_rule("busy: anything:-5%")])
    with pytest.raises(ExperimentError, match="rule"):
        check_before([read_rule(text)])


@pytest.mark.parametrize(("change", "text"), [(0.041, "+4.1 %"), (-0.5, "-50.0 %"), (2.0, "+200.0 %"), (8.57, "×9.57"), (2000, "over ×1000")])
def test_a_change_is_a_percentage_until_it_is_a_multiple(change: float, text: str):
    assert change_text(change) == text


@pytest.mark.parametrize(
    ("low", "high", "result"), [(0.80, 0.90, "failed"), (0.90, 0.97, "undecided"), (0.96, 1.02, "passed"), (1.1, 1.2, "passed")]
)
def test_with_an_interval_a_rule_fails_only_if_all_of_it_is_beyond(low: float, high: float, result: str):
    told = judged("throughput:-5%", 100, 90, Ratio((low + high) / 2, low, high, 9))
    assert told.result == result
    assert ("WEAK" in told.words) == (result == "undecided")
