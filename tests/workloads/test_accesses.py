"""Sequences of lookups: what each pattern asks for, and what is known of the future."""

from collections import Counter
from itertools import pairwise
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.experiments.tiers import TiersKnobs
from labkit.workloads.accesses import PERIOD, Accesses, accesses_of, strided


def looked_up(count: int, **knobs: object) -> list[int]:
    sequence = accesses_of(TiersKnobs.parse(knobs))
    return [sequence.at(lookup) for lookup in range(count)]


def test_a_scan_goes_through_the_whole_table_and_begins_again():
    assert looked_up(10, pattern="scan", blocks=4) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_loop_stays_within_its_blocks_and_within_the_table():
    assert looked_up(7, pattern="loop", blocks=9, loop_blocks=3) == [0, 1, 2, 0, 1, 2, 0]
    assert looked_up(5, pattern="loop", blocks=2, loop_blocks=96) == [0, 1, 0, 1, 0]


def test_a_shuffled_loop_asks_for_fixed_blocks_of_the_whole_table():
    once = looked_up(10, pattern="loop", blocks=100, loop_blocks=5, shuffled=True)
    assert once[:5] == once[5:] and len(set(once)) == 5 and sorted(once[:5]) != once[:5]
    assert once == looked_up(10, pattern="loop", blocks=100, loop_blocks=5, shuffled=True)
    assert once != looked_up(10, pattern="loop", blocks=100, loop_blocks=5, shuffled=True, seed=1)


@given(count=st.integers(1, 60), stride=st.integers(1, 200))
def test_a_stride_reaches_every_block_once_before_it_begins_again(count: int, stride: int):
    places = strided(count, stride).tolist()
    assert sorted(places) == list(range(count))
    within = count // gcd(count, stride)
    assert all((after - before - stride) % count == 0 for before, after in pairwise(places[:within]))


def test_strides_in_numbers():
    assert strided(8, 3).tolist() == [0, 3, 6, 1, 4, 7, 2, 5]
    assert strided(8, 2).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.5])
def test_zipf_asks_for_the_block_of_rank_r_in_proportion_to_its_power(skew: float):
    counts = np.array([count for _, count in Counter(looked_up(PERIOD, skew=skew, blocks=64)).most_common()])
    expected = np.arange(1, 65) ** -skew
    expected *= PERIOD / expected.sum()
    few = expected[:5]
    assert counts[:5] == pytest.approx(few, abs=5 * few.max() ** 0.5 + 0.1 * few.max() * (skew == 0))
    assert len(counts) == 64


def test_the_hot_blocks_of_zipf_are_scattered_over_the_table():
    hot = [block for block, _ in Counter(looked_up(PERIOD, blocks=512)).most_common(16)]
    assert min(abs(one - other) for one in hot for other in hot if one != other) >= 1 and max(hot) > 256 > min(hot)


def test_a_mixture_is_zipf_with_a_scan_in_between():
    alone = looked_up(PERIOD, blocks=512)
    mixed = looked_up(PERIOD, pattern="mixture", blocks=512, scan_share=1.0)
    assert mixed[:513] == [*range(512), 0]
    assert looked_up(2000, pattern="mixture", blocks=512, scan_share=0.0) == alone[:2000]
    some = looked_up(PERIOD, pattern="mixture", blocks=512, scan_share=0.25)
    assert sum(one != other for one, other in zip(some, alone, strict=True)) / PERIOD == pytest.approx(0.25, abs=0.02)


def test_a_replay_is_what_was_recorded():
    sequence = accesses_of(TiersKnobs.parse({"pattern": "replay", "replay": "lookups.csv"}), [3, 1, 3])
    assert [sequence.at(lookup) for lookup in range(5)] == [3, 1, 3, 3, 1]


# ---- the future ----------------------------------------------------------------------------------------------


@given(blocks=st.lists(st.integers(0, 6), min_size=1, max_size=30), lookup=st.integers(-1, 90), block=st.integers(0, 7))
def test_the_next_use_is_the_first_lookup_afterwards_that_asks_for_the_block(blocks: list[int], lookup: int, block: int):
    sequence = Accesses(blocks)
    coming = [later for later in range(lookup + 1, lookup + 1 + len(blocks)) if sequence.at(later) == block]
    assert sequence.next_use(block, lookup) == (coming[0] if coming else 1 << 62)


@given(blocks=st.lists(st.integers(0, 6), min_size=1, max_size=30), lookup=st.integers(0, 60), count=st.integers(0, 9))
def test_what_is_coming_are_the_next_distinct_blocks(blocks: list[int], lookup: int, count: int):
    sequence = Accesses(blocks)
    distinct = dict.fromkeys(sequence.at(later) for later in range(lookup + 1, lookup + 1 + len(blocks)))
    distinct.pop(sequence.at(lookup), None)
    assert sequence.coming(lookup, count) == list(distinct)[:count]
