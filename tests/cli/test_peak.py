"""`labkit peak`: the highest rate that keeps a promise, in words and as JSON; what cannot be searched is refused."""

import json
from collections.abc import Callable

import pytest

FIXED = ["peak", "batching", "--device", "simulated:l4", "--model", "fixed", "--seconds", "1", "--precision", "0.2"]


def test_the_peak_is_told_with_what_was_tried(labkit: Callable) -> None:
    told = labkit(*FIXED, "--slo", "p95:20ms", "--policy", "none", "--rate", "100")
    assert told.code == 0
    assert "requests/s keep p95 ≤ 20 ms; " in told.out and "are too many" in told.out
    assert "PREDICTED: " in told.out and "in 3 of 3 schedules" in told.out
    assert "100 requests/s: kept, 100 % in time" in told.err


def test_a_server_that_batches_holds_its_promise_at_a_higher_rate(labkit: Callable) -> None:
    rates = {}
    for policy in ("none", "greedy"):
        answer = labkit(*FIXED, "--slo", "p95:20ms", "--policy", policy, "--rate", "200", "--json")
        rates[policy] = json.loads(answer.out)["rate"]
    assert rates["greedy"] > 2 * rates["none"]


def test_every_trial_is_saved_as_a_run(labkit: Callable) -> None:
    trials = json.loads(labkit(*FIXED, "--slo", "p95:20ms", "--out", "trials", "--json").out)["trials"]
    listed = json.loads(labkit("list", "--out", "trials", "--json").out)
    assert len(listed["runs"]) == len(trials)


def test_no_rate_keeps_what_cannot_be_kept(labkit: Callable) -> None:
    told = labkit(*FIXED, "--slo", "p50:1ms", "--rate", "8", "--batch-ms", "5", "--json")
    assert told.code == 1
    assert json.loads(told.out)["rate"] is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["peak", "batching"], "--slo"),
        ([*FIXED, "--slo", "fast"], "is not a promise"),
        ([*FIXED, "--slo", "p99:50ms", "--precision", "0"], "precision=0"),
        ([*FIXED, "--slo", "p99:50ms", "--seconds", "0"], "seconds=0"),
        ([*FIXED, "--slo", "p99:50ms", "--seconds", "-1"], "seconds=-1"),
        ([*FIXED, "--slo", "p99:50ms", "--rate", "0"], "rate"),
        ([*FIXED, "--slo", "p99:50ms", "--replay", "x.csv"], "--replay"),
        (["peak", "pipeline", "--slo", "p99:50ms"], "serves no requests"),
        (["peak", "nothing", "--slo", "p99:50ms"], "there is no experiment 'nothing'"),
    ],
)
def test_what_cannot_be_searched_is_refused(labkit: Callable, words: list[str], says: str) -> None:
    refused = labkit(*words)
    assert refused.code == 2
    assert says in refused.err


def test_the_peak_of_a_server_with_tenants_begins_where_it_likes(labkit: Callable) -> None:
    told = labkit("peak", "tenants", *FIXED[2:], "--slo", "p95:20ms", "--policy", "none")
    assert told.code == 0, told.err
    assert "50 requests/s: kept" in told.err and "requests/s keep p95 ≤ 20 ms" in told.out
