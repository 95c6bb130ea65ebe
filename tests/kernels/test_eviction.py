"""Each policy against the same one written as plainly as can be, access for access; the optimum against all choices that there are."""

from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.kernels.eviction import Belady, Clock, Lfu, Lru, Policy, PolicyName, policy_named
from labkit.kernels.s3_fifo import S3Fifo
from labkit.workloads.accesses import Accesses
from tests.kernels import plain_caches

NAMES: tuple[PolicyName, ...] = get_args(PolicyName)
TRACES = st.lists(st.integers(0, 12), min_size=1, max_size=120)
CAPACITIES = st.integers(1, 12)


def hits(policy: Policy, accesses: Sequence[int], capacity: int) -> list[bool]:
    """A cache of one tier under a policy."""
    found = []
    for block in accesses:
        found.append(block in policy)
        if block in policy:
            policy.touch(block)
            continue
        if len(policy) == capacity:
            policy.victim()
        policy.insert(block)
        assert len(policy) <= capacity
    return found


class Future:
    """What the optimum is told: the next use after the access that goes on."""

    def __init__(self, accesses: Sequence[int]):
        self.accesses, self.now = Accesses(accesses), -1

    def next_use(self, block: int) -> int:
        return self.accesses.next_use(block, self.now)


def optimal_hits(accesses: Sequence[int], capacity: int, may_pass: bool) -> int:
    """Of the policy that knows the future."""
    future = Future(accesses)
    policy, found = Belady(future.next_use), 0
    for future.now, block in enumerate(accesses):
        if block in policy:
            found += 1
            policy.touch(block)
        elif len(policy) < capacity:
            policy.insert(block)
        elif not may_pass or policy.prefers(block):
            policy.victim()
            policy.insert(block)
    return found


# ---- event for event -----------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(accesses=TRACES, capacity=CAPACITIES)
def test_lru_has_a_block_if_fewer_others_than_it_holds_came_since(accesses: list[int], capacity: int):
    expected = [distance is not None and distance < capacity for distance in plain_caches.lru_distances(accesses)]
    assert hits(Lru(capacity), accesses, capacity) == expected


@settings(max_examples=200, deadline=None)
@given(accesses=TRACES, capacity=CAPACITIES)
def test_clock_is_a_ring_with_a_hand(accesses: list[int], capacity: int):
    assert hits(Clock(capacity), accesses, capacity) == plain_caches.clock(accesses, capacity)


@settings(max_examples=200, deadline=None)
@given(accesses=TRACES, capacity=CAPACITIES)
def test_lfu_counts_since_a_block_came(accesses: list[int], capacity: int):
    assert hits(Lfu(capacity), accesses, capacity) == plain_caches.lfu(accesses, capacity)


@settings(max_examples=300, deadline=None)
@given(accesses=st.lists(st.integers(0, 40), min_size=1, max_size=300), capacity=st.integers(1, 32))
def test_s3_fifo_is_the_algorithm_of_its_paper(accesses: list[int], capacity: int):
    assert hits(S3Fifo(capacity), accesses, capacity) == plain_caches.s3_fifo(accesses, capacity)


def test_s3_fifo_lets_a_scan_pass_by_what_is_used_again():
    hot = list(range(9)) * 4
    scan = list(range(100, 140))
    policy = S3Fifo(20)
    hits(policy, [*hot, *scan], 20)
    assert all(hits(policy, range(9), 20))
    lru = Lru(20)
    hits(lru, [*hot, *scan], 20)
    assert not any(hits(lru, range(9), 20))


# ---- the bound -----------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(accesses=st.lists(st.integers(0, 5), min_size=1, max_size=14), capacity=st.integers(1, 4), may_pass=st.booleans())
def test_the_optimum_has_as_many_hits_as_any_choice_could_have(accesses: list[int], capacity: int, may_pass: bool):
    assert optimal_hits(accesses, capacity, may_pass) == plain_caches.most_hits(accesses, capacity, may_pass)


@settings(max_examples=200, deadline=None)
@given(accesses=TRACES, capacity=CAPACITIES, name=st.sampled_from([name for name in NAMES if name != "belady"]))
def test_the_optimum_has_at_least_the_hits_of_every_policy(accesses: list[int], capacity: int, name: PolicyName):
    policy = policy_named(name, capacity, lambda block: 0)
    assert optimal_hits(accesses, capacity, may_pass=False) >= sum(hits(policy, accesses, capacity))


def test_a_loop_one_longer_than_the_cache_defeats_lru_and_not_the_optimum():
    loop = list(range(5)) * 20
    assert sum(hits(Lru(4), loop, 4)) == 0
    assert optimal_hits(loop, 4, may_pass=False) == 100 - 5 - 95 // 4, "the first five miss, and then one in four"


def test_the_optimum_forgets_what_is_no_longer_true():
    future = Future([0, 1, 2])
    policy = Belady(future.next_use)
    for future.now in range(10_000):
        block = future.accesses.at(future.now)
        (policy.touch if block in policy else policy.insert)(block)
    assert len(policy._furthest) < 200


# ---- what every policy promises ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_nobody_that_is_to_be_kept_leaves_and_what_leaves_was_there(name: PolicyName, data: st.DataObject):
    capacity = data.draw(st.integers(1, 8))
    policy, there, turn = policy_named(name, capacity, lambda block: block * 7 % 5), set(), 0
    for block in data.draw(st.lists(st.integers(0, 10), max_size=60)):
        turn += 1
        if block in there:
            policy.touch(block)
            continue
        if len(there) == capacity:
            keep = set(data.draw(st.lists(st.sampled_from(sorted(there)), max_size=capacity - 1)))
            victim = policy.victim(keep)
            assert victim in there - keep
            there.remove(victim)
        if turn % 7 == 3 and there:
            gone = min(there)
            policy.remove(gone)
            there.remove(gone)
        policy.insert(block)
        there.add(block)
        assert len(policy) == len(there) and set(policy.blocks()) == there
        assert all(other in policy for other in there)


@pytest.mark.parametrize("name", NAMES)
def test_whoever_comes_is_taken_in_but_by_who_knows_better(name: PolicyName):
    policy = policy_named(name, 1, {0: 5, 1: 3, 2: 9}.__getitem__)
    policy.insert(0)
    assert policy.prefers(1)
    assert policy.prefers(2) == (name != "belady")


@pytest.mark.parametrize(("name", "order"), [("lru", [1, 2, 0]), ("clock", [0, 1, 2]), ("lfu", [1, 2, 0]), ("s3-fifo", [0, 1, 2]), ("belady", [2, 0, 1])])
def test_the_order_in_which_they_would_leave(name: PolicyName, order: list[int]):
    policy = policy_named(name, 10, {0: 5, 1: 3, 2: 9}.__getitem__)
    for block in range(3):
        policy.insert(block)
    policy.touch(0)
    assert list(policy.blocks()) == order


@pytest.mark.parametrize("name", NAMES)
def test_whoever_was_kept_once_leaves_next_as_if_nothing_had_been(name: PolicyName):
    policy = policy_named(name, 10, {0: 9, 1: 8, 2: 7, 3: 6}.__getitem__)
    for block in range(4):
        policy.insert(block)
    assert [policy.victim({0}), policy.victim({0}), policy.victim(), policy.victim()] in ([1, 2, 0, 3], [1, 2, 3, 0])
    if name in ("lru", "lfu", "belady"):
        policy.insert(0)
        policy.insert(1)
        assert [policy.victim({0}), policy.victim()] == [1, 0]


def test_the_hand_of_the_clock_leaves_the_mark_of_whom_it_must_not_take():
    policy = Clock(3)
    for block in range(3):
        policy.insert(block)
    policy.touch(0)
    assert policy.victim({0}) == 1
    policy.insert(3)
    assert policy.victim() == 2
    assert policy.victim() == 3, "the mark of 0 still counts"


def test_the_main_queue_leaves_the_count_of_whom_it_must_not_take():
    policy = S3Fifo(10)
    policy._main.update({0: 1, 1: 0, 2: 0})
    assert policy.victim({0}) == 1
    assert policy._main == {2: 0, 0: 1}


def test_a_smaller_s3_fifo_has_fewer_ghosts():
    policy = S3Fifo(20)
    hits(policy, range(100), 20)
    assert len(policy._ghosts) == 18
    policy.resize(10)
    assert len(policy._ghosts) == 9
