"""The batching kernel in exact numbers on the virtual clock: who is served with whom, when, and what becomes of the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.experiments.batching import BatchingKnobs
from labkit.schedule import Answer, Budget, Request
from labkit.schedule.arrivals import OpenLoop
from tests.kernels.serving import MS, SLACK_NS, Model, serve

SERVED, REJECTED, EXPIRED, FAILED, CANCELLED = Answer

# ---- policies ------------------------------------------------------------------------------------------------


def test_without_a_policy_each_request_goes_alone_in_the_order_of_arrival():
    run = serve([0, 1, 2], policy="none", in_flight=1)
    assert run.batches == [[0], [1], [2]]
    assert run.latency_ms == [10, 19, 28]


def test_greedy_sends_what_there_is_when_idle_and_those_who_waited_join_the_next_batch():
    run = serve([0, 1, 2, 3], policy="greedy", in_flight=1)
    assert run.batches == [[0], [1, 2, 3]]
    assert run.latency_ms == [10, 19, 18, 17]


def test_greedy_sends_a_full_batch_behind_one_that_is_on_its_way():
    run = serve([0, 1, 2, 3], policy="greedy", in_flight=2, max_batch=2)
    assert run.batches == [[0], [1, 2], [3]]
    assert run.ms("first_ns") == [0, 2, 2, 20], "the full batch goes when it is full, the rest when the device has nothing to do"


def test_fixed_waits_for_a_full_batch():
    run = serve([0, 3, 5], policy="fixed", max_batch=3, max_delay=100.0)
    assert run.batches == [[0, 1, 2]]
    assert run.ms("first_ns") == [5, 5, 5]


def test_fixed_waits_no_longer_than_its_delay_after_the_oldest():
    run = serve([0, 3, 20], policy="fixed", max_batch=8, max_delay=7.0)
    assert run.batches == [[0, 1], [2]]
    assert run.ms("first_ns") == [7, 7, 27]


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.3, 1 / 3, 7.7, 1e3])
def test_the_delay_is_reached_whatever_the_rounding(delay: float):
    run = serve([0.1, 0.2], policy="fixed", max_batch=8, max_delay=delay, in_flight=2)
    first = run.column("first_ns")[0]
    assert 0 <= first - (run.column("due_ns")[0] + int(delay * MS)) <= SLACK_NS


def test_no_batch_is_larger_than_allowed():
    run = serve([0] * 23, policy="greedy", in_flight=1, max_batch=5)
    assert [len(batch) for batch in run.batches] == [5, 5, 5, 5, 3]


@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_no_more_batches_are_on_their_way_than_allowed(in_flight: int):
    run = serve([0] * 40, policy="greedy", max_batch=4, in_flight=in_flight)
    starts, ends = np.array(run.column("first_ns")), np.array(run.column("done_ns"))
    at_once = [len(set(np.array(run.column("step"))[(starts <= at) & (ends > at)])) for at in starts]
    assert max(at_once) == in_flight


def takes(n: int) -> float:
    """5 ms, and 1 ms more for each request."""
    return 5.0 + n


def test_adaptive_makes_batches_so_small_that_the_oldest_keeps_its_promise():
    learning = [0, 20, 20]  # batches of 1, of which it cannot tell 6 from 6 n, and of 2: it has learnt 5 + n
    run = serve([*learning, *[100] * 20], takes, policy="adaptive", in_flight=1, max_batch=64, slo=16.6)
    sizes = [len(batch) for batch in run.batches]
    assert sizes == [1, 2, 10], "16.6 ms ÷ 1.1 = 15.1 ms = 5 + 10"
    late = [ms for ms, answer in zip(run.latency_ms, run.answers, strict=True) if answer == SERVED and ms > 16.6]
    assert not late
    assert run.answers.count(EXPIRED) == 10, "the others could not have been served in time after the first ten"


def test_greedy_serves_the_same_requests_too_late():
    run = serve([100] * 20, takes, policy="greedy", in_flight=1, max_batch=64, slo=16.6)
    assert run.latency_ms == [25] * 20


# ---- limits --------------------------------------------------------------------------------------------------


def test_the_queue_holds_no_more_than_its_limit_and_the_rest_is_rejected_when_it_comes():
    run = serve([0, 1, 2, 3, 4, 30], policy="greedy", in_flight=1, max_batch=8, queue_limit=2, takes_ms=lambda n: 20.0)
    assert run.answers == [SERVED, SERVED, SERVED, REJECTED, REJECTED, SERVED]
    assert run.ms("done_ns")[3:5] == [3, 4]
    assert run.column("first_ns")[3] == -1


def test_a_request_that_has_waited_until_its_deadline_expires_exactly_then():
    run = serve([0, 1, 2], policy="greedy", in_flight=1, deadline=5.0)
    assert run.answers == [SERVED, EXPIRED, EXPIRED]
    for due, done in list(zip(run.column("due_ns"), run.column("done_ns"), strict=True))[1:]:
        assert 0 <= done - due - 5 * MS <= SLACK_NS


def test_a_request_whose_batch_was_sent_before_its_deadline_is_served_after_it():
    assert serve([0], policy="greedy", deadline=5.0).answers == [SERVED]


def test_a_deadline_of_nothing_serves_nobody_and_ends():
    run = serve([0, 1], policy="fixed", max_delay=1.0, deadline=0.0)
    assert run.answers == [EXPIRED, EXPIRED]


def test_a_client_that_hangs_up_while_it_waits_is_cancelled_exactly_then_and_makes_room():
    run = serve([0, 1, 2, 9], policy="greedy", in_flight=1, queue_limit=2, patience=5.0, takes_ms=lambda n: 8.0 if n > 1 else 7.5)
    assert run.answers == [CANCELLED, CANCELLED, CANCELLED, CANCELLED]
    assert run.batches == [[0], [3]], "nobody computes for those who are gone"
    for due, done in list(zip(run.column("due_ns"), run.column("done_ns"), strict=True))[1:3]:
        assert 0 <= done - due - 5 * MS <= SLACK_NS


def test_an_answer_that_comes_after_its_client_hung_up_is_no_answer():
    run = serve([0, 20], policy="greedy", in_flight=1, patience=8.0, takes_ms=lambda n: 10.0 if not n - 1 else 1.0)
    assert run.answers == [CANCELLED, CANCELLED]
    assert run.ms("done_ns") == [10, 30]
    assert serve([0], policy="greedy", patience=10.5).answers == [SERVED]


def test_whoever_is_first_ends_the_waiting_the_client_or_the_server():
    patient = serve([0, 1], policy="greedy", in_flight=1, deadline=3.0, patience=50.0)
    hasty = serve([0, 1], policy="greedy", in_flight=1, deadline=50.0, patience=3.0)
    assert patient.answers == [SERVED, EXPIRED]
    assert hasty.answers[1] == CANCELLED


class Nested:
    """Requests that call the same server before they are answered themselves: a child is due when its parent has been computed, and the
    parent has its answer when the child has."""

    def __init__(self, parents_ms: list[float], deep: int):
        self.next_ns: int | None = 0
        self._due = [(round(ms * MS), number, 0) for number, ms in enumerate(parents_ms)]
        self._deep, self._number, self._known = deep, 0, {}
        self.answered_ns: dict[int, int] = {}

    def take(self, now_ns: int) -> list[Request]:
        self._due.sort()
        taken = []
        while self._due and self._due[0][0] <= now_ns:
            due_ns, parent, level = self._due.pop(0)
            self._known[self._number] = (parent, level)
            taken.append(Request(self._number, due_ns))
            self._number += 1
        self.next_ns = self._due[0][0] if self._due else None
        return taken

    def turn(self, now_ns: int, rate: float, shape: str) -> None:
        """They come as they come."""

    def computed(self, request: int, done_ns: int) -> None:
        parent, level = self._known[request]
        if level == self._deep:
            self.answered_ns[parent] = done_ns
        else:
            self._due.append((done_ns, parent, level + 1))


@pytest.mark.parametrize("policy", ["none", "fixed", "greedy", "adaptive"])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_request_that_calls_the_same_server_never_blocks_itself(policy: str, in_flight: int, monkeypatch: pytest.MonkeyPatch):
    nested = Nested([0, 1, 2, 3, 50], deep=3)
    monkeypatch.setattr(Model, "answered", lambda self, step, requests, handle: [nested.computed(each.id, handle.end_ns) for each in requests])
    run = serve(nested, policy=policy, in_flight=in_flight, max_batch=4, max_delay=5.0)
    assert sorted(nested.answered_ns) == [0, 1, 2, 3, 4], "every parent has its answer"
    assert run.answers == [SERVED] * 20
    assert all(nested.answered_ns[parent] >= 4 * 10 * MS for parent in nested.answered_ns)


# ---- lengths -------------------------------------------------------------------------------------------------


def test_in_buckets_only_requests_of_about_one_length_share_a_batch():
    lengths = [10, 100, 12, 90, 15]
    together = serve([0, 1, 1, 1, 1], policy="greedy", in_flight=1, lengths=lengths)
    apart = serve([0, 1, 1, 1, 1], policy="greedy", in_flight=1, lengths=lengths, bucket_by_length=True)
    assert together.batches == [[0], [1, 2, 3, 4]]
    assert apart.batches == [[0], [1, 3], [2, 4]]


def test_a_full_bucket_does_not_wait_for_the_oldest_of_another():
    lengths = [1000, 10, 10, 10]
    run = serve([0, 1, 2, 3], policy="fixed", max_batch=3, max_delay=50.0, in_flight=1, lengths=lengths, bucket_by_length=True)
    assert run.batches == [[1, 2, 3], [0]]
    assert run.ms("first_ns")[0] == 50


# ---- failures, stops, toggles --------------------------------------------------------------------------------


def test_only_the_batch_with_the_request_on_which_the_model_raises_fails_and_it_is_named():
    run = serve([0, 1, 1, 30], policy="greedy", in_flight=2, fails=[1])
    assert run.answers == [SERVED, FAILED, FAILED, SERVED]
    assert run.trace.meta["warnings"] == ["batch 1 failed, requests 1, 2: ValueError('cannot take [1, 2]')"]
    assert run.answered == [0, 3]


def test_when_everything_fails_the_first_few_are_named_and_all_are_counted():
    run = serve(list(range(0, 400, 20)), policy="none", fails=list(range(20)))
    assert run.answers == [FAILED] * 20
    assert len(run.trace.meta["warnings"]) == 5


def test_a_stop_serves_what_is_on_its_way_and_cancels_what_waits():
    run = serve([0, 1, 2, 100], policy="greedy", in_flight=1, stop_at_ms=5.0)
    assert run.answers == [SERVED, CANCELLED, CANCELLED]
    assert run.ms("done_ns")[0] == 10


def test_when_the_time_is_up_what_has_come_is_served():
    run = serve(OpenLoop(1000, "constant"), policy="greedy", in_flight=1, budget=Budget(seconds=0.1, warmup=0))
    assert run.ms("due_ns")[0] == 1, "measuring begins with the first batch"
    assert len(run.answers) == 101
    assert set(run.answers) == {SERVED}


def test_a_toggle_of_the_batch_size_acts_on_the_next_batch():
    small = BatchingKnobs.parse({"model": "fixed", "slo": None, "policy": "greedy", "in_flight": 1, "max_batch": 2})
    run = serve([0] * 8, policy="greedy", in_flight=1, max_batch=4, changes=lambda now: small if now > 5 * MS else None)
    assert [len(batch) for batch in run.batches] == [4, 2, 2]


def test_a_toggle_of_the_rate_acts_at_once():
    slow = {"model": "fixed", "slo": None, "arrivals": "constant"}
    fast = BatchingKnobs.parse({**slow, "rate": 1000.0})
    run = serve(
        OpenLoop(10, "constant"), lambda n: 0.1, changes=lambda now: fast if now >= 900 * MS else None,
        budget=Budget(seconds=1.05, warmup=0), arrivals="constant", rate=10.0,
    )  # fmt: skip
    due = np.array(run.ms("due_ns"))
    assert due[:9].tolist() == [100, 200, 300, 400, 500, 600, 700, 800, 900]
    assert set(np.diff(due[9:]).round(3)) == {1.0}


# ---- always --------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    due=st.lists(st.integers(0, 200_000), min_size=1, max_size=60).map(sorted),
    policy=st.sampled_from(["none", "fixed", "greedy", "adaptive"]),
    max_batch=st.integers(1, 8),
    max_delay=st.floats(0, 40),
    in_flight=st.integers(1, 4),
    queue_limit=st.integers(1, 20),
    deadline=st.none() | st.floats(0, 60),
    patience=st.none() | st.floats(0, 80),
    slo=st.none() | st.floats(1, 60),
    fixed_ms=st.floats(0.001, 20),
    buckets=st.booleans(),
    fails=st.sets(st.integers(0, 59), max_size=3),
)
def test_every_request_gets_one_answer_and_no_bound_is_broken(
    due, policy, max_batch, max_delay, in_flight, queue_limit, deadline, patience, slo, fixed_ms, buckets, fails
):
    lengths = [1 + 37 * (number % 5) for number in range(len(due))]
    run = serve(
        [ns / 1000 for ns in due], lambda n: fixed_ms + n, lengths=lengths, fails=sorted(fails), policy=policy,
        max_batch=max_batch, max_delay=max_delay, in_flight=in_flight, queue_limit=queue_limit, deadline=deadline, slo=slo,
        bucket_by_length=buckets, patience=patience,
    )  # fmt: skip
    assert run.column("request") == list(range(len(due)))
    sent = [request for batch in run.batches for request in batch]
    assert len(sent) == len(set(sent)), "nobody is served twice"
    assert all(len(batch) <= max_batch for batch in run.batches)
    assert all(first == -1 or first >= due for first, due in zip(run.column("first_ns"), run.column("due_ns"), strict=True))
    for batch in run.batches:
        answers = {run.answers[request] for request in batch}
        answers -= {CANCELLED} if patience is not None and not fails & set(batch) else set()
        assert answers <= ({FAILED} if fails & set(batch) else {SERVED})
    for request, (answer, latency_ms) in enumerate(zip(run.answers, run.latency_ms, strict=True)):
        if answer is SERVED and patience is not None:
            assert latency_ms <= patience, request
    if deadline is None and patience is None and queue_limit >= len(due) and policy != "adaptive":
        assert set(run.answers) <= {SERVED, FAILED}
