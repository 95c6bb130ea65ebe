"""Static and continuous batching in exact numbers on the virtual clock: who joins when, who leaves when, and who is made to wait."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.experiments.continuous import ContinuousKnobs
from labkit.metrics.requests import counted_requests, request_summary
from labkit.metrics.window import steady_window
from labkit.schedule import Answer, Budget
from labkit.schedule.arrivals import OpenLoop
from tests.kernels.generating import generate
from tests.kernels.serving import MS

SERVED, REJECTED, EXPIRED, FAILED, CANCELLED = Answer

# ---- joining and leaving -------------------------------------------------------------------------------------


def test_a_request_alone_takes_a_turn_for_each_token():
    run = generate([0], [4])
    assert run.batches == [[0]] * 4
    assert run.model.made == [[0], [1], [2], [3]]
    assert run.latency_ms == [40]


def test_a_newcomer_joins_between_two_tokens():
    run = generate([0, 15], [4, 2])
    assert run.batches == [[0], [0], [0, 1], [0, 1]]
    assert run.ms("first_ns") == [0, 20], "when the turn with the first token was sent"
    assert run.column("step") == [0, 2]
    assert run.ms("done_ns") == [40, 40]


def test_nobody_waits_for_a_longer_request_to_end():
    run = generate([0, 0, 0], [10, 2, 1])
    assert run.batches == [[0, 1, 2], [0, 1], *[[0]] * 8]
    assert run.latency_ms == [100, 20, 10]


def test_whoever_leaves_makes_room_in_the_next_turn():
    run = generate([0, 0, 0, 0], [3, 1, 2, 1], max_batch=2)
    assert run.batches == [[0, 1], [0, 2], [0, 2], [3]]
    assert run.latency_ms == [30, 10, 30, 40]
    assert run.model.places == [[0, 1], [0, 1], [0, 1], [0]], "no place beyond the second is ever used"


def test_under_static_batching_all_wait_for_the_longest_and_newcomers_for_all():
    run = generate([0, 0, 5], [5, 1, 1], batching="static")
    assert run.batches == [*[[0, 1]] * 5, [2]]
    assert run.latency_ms == [50, 50, 55]
    assert run.ms("first_ns") == [0, 0, 50]


def test_static_batching_makes_tokens_that_nobody_wants():
    runs = {batching: generate([0, 0, 0], [9, 1, 1], batching=batching) for batching in ("static", "continuous")}
    items = {batching: int(run.trace["items"].sum()) for batching, run in runs.items()}
    rows = {batching: sum(map(len, run.batches)) for batching, run in runs.items()}
    assert items == {"static": 11, "continuous": 11}, "what is wanted is the same"
    assert rows == {"static": 27, "continuous": 11}, "what is made is not"


def test_the_same_requests_are_done_sooner_continuously():
    wanted = [1 + 7 * (number % 5 == 0) for number in range(40)]
    due = [5 * number for number in range(40)]
    static, continuous = (generate(due, wanted, batching=batching, max_batch=4) for batching in ("static", "continuous"))
    assert static.answers == continuous.answers == [SERVED] * 40
    assert len(continuous.batches) < len(static.batches)
    assert np.mean(continuous.latency_ms) < np.mean(static.latency_ms) / 2


def test_with_two_turns_on_their_way_the_device_does_not_wait_for_the_host_and_a_newcomer_waits_a_turn_more():
    run = generate([0, 15], [4, 1], in_flight=2)
    assert run.batches == [[0], [0], [0], [0, 1]]
    assert run.ms("first_ns") == [0, 20]
    assert run.ms("done_ns") == [40, 40]


# ---- tokens --------------------------------------------------------------------------------------------------


def test_the_first_token_and_each_further_one_are_timed():
    run = generate([0, 15], [4, 2])
    assert run.ms("first_token_ns") == [10, 30], "from the end of the turn that made it"
    assert run.column("tokens") == [4, 2]
    summary = request_summary([counted_requests(run.trace, steady_window(run.trace), 0)])
    assert summary.first_token["mean"].value == pytest.approx(12.5 * MS, abs=10)
    assert summary.per_token["mean"].value == pytest.approx(10 * MS, abs=10)
    assert summary.metrics()["per output token mean"].n == 2


def test_static_batching_makes_those_who_are_done_wait_for_their_answer():
    run = generate([0, 0], [5, 1], batching="static")
    assert run.ms("first_token_ns") == [10, 10]
    assert run.ms("done_ns") == [50, 50]
    assert run.column("tokens") == [5, 1]


def test_a_request_of_one_token_has_no_time_for_a_further_one():
    run = generate([0], [1])
    summary = request_summary([counted_requests(run.trace, steady_window(run.trace), 0)])
    assert summary.first_token["mean"].value == pytest.approx(10 * MS, abs=10)
    assert summary.per_token["mean"].value is None and summary.per_token["mean"].n == 0


# ---- limits --------------------------------------------------------------------------------------------------


def test_the_queue_holds_no_more_than_its_limit():
    run = generate([0, 1, 2, 3], [3, 1, 1, 1], max_batch=1, queue_limit=2)
    assert run.answers == [SERVED, SERVED, SERVED, REJECTED]
    assert run.ms("done_ns")[3] == 3


def test_a_request_that_waits_until_its_deadline_expires_but_not_one_that_is_on_its_way():
    run = generate([0, 1], [5, 1], max_batch=1, deadline=20.0)
    assert run.answers == [SERVED, EXPIRED]
    assert run.ms("done_ns") == [50, 21]


def test_a_client_that_hangs_up_leaves_between_two_tokens_and_makes_room():
    run = generate([0, 0], [9, 2], max_batch=1, patience=25.0)
    assert run.answers == [CANCELLED, CANCELLED]
    assert run.batches == [[0], [0], [0]], "the turn on its way ends; no further token is made"
    assert run.ms("done_ns") == [25, 25]
    other = generate([0, 12], [9, 1], max_batch=1, patience=35.0)
    assert other.answers == [CANCELLED, CANCELLED]
    assert generate([0, 12], [3, 1], max_batch=1, patience=35.0).answers == [SERVED, SERVED]


def test_when_the_time_is_up_what_has_come_gets_all_its_tokens():
    run = generate(OpenLoop(100, "constant"), [4] * 1000, budget=Budget(seconds=0.1, warmup=0))
    assert set(run.answers) == {SERVED}
    assert len(run.answers) == 11


# ---- failures, stops, toggles --------------------------------------------------------------------------------


def test_a_turn_that_fails_fails_those_who_were_in_it_and_nobody_else():
    run = generate([0, 0, 25, 25], [1, 5, 2, 2], fails=[1])
    assert run.answers == [SERVED, FAILED, SERVED, SERVED]
    assert run.batches == [[0, 1], [1], [2, 3], [2, 3]]
    assert run.ms("done_ns")[1] == 20, "it is told when its turn has failed"
    assert run.trace.meta["warnings"] == ["batch 1 failed, requests 1: ValueError('out of memory')"]
    assert run.answered == [0, 2, 3]


def test_with_two_turns_on_their_way_who_failed_in_the_first_is_answered_once_and_who_joined_the_second_lives():
    run = generate([0, 5], [6, 3], in_flight=2, fails=[1])
    assert run.batches[:3] == [[0], [0], [0, 1]]
    assert run.answers == [FAILED, SERVED]
    assert run.model.places[2] == [0, 1]
    assert run.batches[3:] == [[1], [1]]


def test_a_stop_lets_those_on_their_way_have_their_tokens_and_cancels_who_waits():
    run = generate([0, 1, 100], [4, 1, 1], max_batch=1, stop_at_ms=15.0)
    assert run.answers == [SERVED, CANCELLED]
    assert run.ms("done_ns")[0] == 40
    assert 15 <= run.ms("done_ns")[1] <= 20


def test_after_a_cancel_everybody_is_answered_and_the_program_ends():
    run = generate([0, 0, 0], [50, 50, 2], cancel_at_turn=4, stop_at_ms=1e9)
    assert run.answers == [CANCELLED, CANCELLED, SERVED]


def settings_of(**knobs: object) -> ContinuousKnobs:
    return ContinuousKnobs.parse({"slo": None, "in_flight": 1, **knobs})


def test_a_toggle_to_continuous_lets_go_of_those_who_are_done():
    later = settings_of(batching="continuous")
    run = generate([0, 0, 12], [6, 1, 1], batching="static", changes=lambda now: later if now >= 20 * MS else None)
    assert run.batches == [[0, 1], [0, 1], [0, 1, 2], [0], [0], [0]]
    assert run.ms("done_ns") == [60, 30, 30]


def test_a_smaller_batch_sends_nobody_away_and_takes_nobody_in_until_there_is_room():
    small = settings_of(max_batch=1)
    run = generate([0, 0, 12], [2, 4, 1], max_batch=2, changes=lambda now: small if now >= 10 * MS else None)
    assert run.batches == [[0, 1], [0, 1], [1], [1], [2]]


# ---- always --------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    asked=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 9)), min_size=1, max_size=40).map(sorted),
    batching=st.sampled_from(["static", "continuous"]),
    max_batch=st.integers(1, 6),
    in_flight=st.integers(1, 4),
    queue_limit=st.integers(1, 20),
    deadline=st.none() | st.floats(0, 60),
    fails=st.sets(st.integers(0, 60), max_size=3),
)
def test_every_request_gets_one_answer_and_no_bound_is_broken(asked, batching, max_batch, in_flight, queue_limit, deadline, fails):
    due, wanted = zip(*asked, strict=True)
    run = generate(
        due, wanted, lambda n: 3.0 + n, batching=batching, max_batch=max_batch, in_flight=in_flight, queue_limit=queue_limit,
        deadline=deadline, fails=sorted(fails),
    )  # fmt: skip
    assert run.column("request") == list(range(len(due)))
    joined = [request for ids in run.model.joined for request in ids]
    assert len(joined) == len(set(joined)), "nobody joins twice"
    assert all(1 <= len(members) <= max_batch for members in run.batches)
    for places in run.model.places:
        assert len(places) == len(set(places)), "no two share a place"
        assert max(places) < max_batch, "memory is bounded by the batch"
    turns = {request: sum(request in members for members in run.batches) for request in range(len(due))}
    for request, answer in enumerate(run.answers):
        if answer == SERVED:
            assert turns[request] >= wanted[request] if batching == "static" else turns[request] == wanted[request]
        if answer in (REJECTED, EXPIRED):
            assert turns[request] == 0
        if answer == FAILED:
            assert fails
    assert sorted(run.answered) == [request for request, answer in enumerate(run.answers) if answer == SERVED]


def test_continuous_batching_serves_in_the_order_of_arrival():
    run = generate(list(range(30)), [1 + number % 4 for number in range(30)], max_batch=3)
    assert [request for ids in run.model.joined for request in ids] == list(range(30))


@pytest.mark.parametrize("batching", ["static", "continuous"])
def test_a_thousand_turns_leave_nothing_behind(batching: str):
    run = generate(OpenLoop(50, "poisson"), [1 + number % 7 for number in range(10_000)], batching=batching, budget=Budget(steps=1_000, warmup=0))
    assert set(run.answers) == {SERVED}
    assert sorted(run.answered) == list(range(len(run.answers)))
