"""What each prefetcher foresees after a few lookups."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.kernels.prefetching import Markov, NextN, Oracle, PrefetcherName, Stride, prefetcher_named
from labkit.workloads.accesses import Accesses

NAMES: tuple[PrefetcherName, ...] = get_args(PrefetcherName)


def after(prefetcher: object, lookups: list[int], count: int) -> list[int]:
    for block in lookups:
        prefetcher.observe(block)
    return prefetcher.ahead(count)


def test_none_foresees_nothing():
    assert after(prefetcher_named("none", lambda count: [1]), [1, 2, 3], 4) == []


def test_next_n_foresees_what_follows_in_the_table():
    assert after(NextN(), [4, 7], 3) == [8, 9, 10]


@pytest.mark.parametrize(
    ("lookups", "ahead"),
    [([], []), ([5], []), ([5, 8], []), ([5, 8, 11], [14, 17]), ([9, 7, 5], [3, 1]), ([5, 8, 11, 12], []), ([5, 8, 11, 12, 13], [14, 15]), ([4, 4, 4], [])],
)
def test_a_stride_counts_once_it_was_seen_twice(lookups: list[int], ahead: list[int]):
    assert after(Stride(), lookups, 2) == ahead


def test_markov_learns_a_random_ring_in_one_round():
    ring = [3, 9, 1, 7, 5]
    assert after(Markov(), ring, 3) == [], "nothing has come after 5 yet"
    assert after(Markov(), [*ring, 3], 3) == [9, 1, 7]
    assert after(Markov(), [*ring, 3], 9) == [9, 1, 7, 5], "no further than once round"


def test_markov_follows_what_came_most_often_and_of_those_the_latest():
    assert after(Markov(), [0, 1, 0, 1, 0, 2, 0], 1) == [1]
    assert after(Markov(), [0, 1, 0, 2, 0], 1) == [2]


def test_the_oracle_knows_the_next_distinct_blocks():
    sequence = Accesses([0, 1, 1, 0, 2, 3])
    assert after(Oracle(lambda count: sequence.coming(0, count)), [0], 3) == [1, 2, 3]


@pytest.mark.parametrize("name", NAMES)
@given(lookups=st.lists(st.integers(0, 9), max_size=40), count=st.integers(1, 9))
def test_nobody_foresees_more_than_was_asked_for_or_a_block_twice(name: PrefetcherName, lookups: list[int], count: int):
    sequence = Accesses([*lookups, 0])
    ahead = after(prefetcher_named(name, lambda most: sequence.coming(len(lookups) - 1, most)), lookups, count)
    assert len(ahead) <= count and len(set(ahead)) == len(ahead)
    assert not lookups or lookups[-1] not in ahead
