"""Which block lies where: one place for each, never too many, and the optimum above every policy in both tiers at once."""

from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.experiments.tiers import TiersKnobs
from labkit.kernels.eviction import PolicyName
from labkit.kernels.residence import Found, Residence
from labkit.workloads.accesses import Accesses
from labkit.workloads.blocks import Tier
from tests.kernels.plain_caches import lru_distances, most_hits

NAMES: tuple[PolicyName, ...] = get_args(PolicyName)
BLOCKS = 12
TRACES = st.lists(st.integers(0, BLOCKS - 1), min_size=1, max_size=80)


def found_in(accesses: Sequence[int], **knobs: Any) -> list[Tier]:
    """Where each lookup found its block."""
    sequence, residence = Accesses(accesses), Residence()
    residence.configure(TiersKnobs.parse(knobs), sequence)
    return [residence.look_up(block).tier for block in accesses]


class Followed:
    """A residence whose moves are carried out by hand: where each block really lies."""

    def __init__(self, accesses: Sequence[int]):
        self.residence, self.sequence = Residence(), Accesses(accesses)
        self.lying: dict[int, Tier] = {}
        self.foreseen: set[int] = set()

    def carry_out(self, found: Found | None) -> None:
        for block, source, target in () if found is None else (*found.moves, *found.demotions):
            assert self.lying.pop(block, Tier.DISK) is source and source is not target
            if target is not Tier.DISK:
                self.lying[block] = target
        for block in () if found is None else found.wasted:
            assert block in self.foreseen
            self.foreseen.remove(block)

    def check(self, knobs: TiersKnobs) -> None:
        """What it says of itself is what its moves have made of it."""
        tiers = list(self.lying.values())
        assert tiers.count(Tier.DEVICE) == self.residence.held(Tier.DEVICE) <= knobs.device_blocks
        assert tiers.count(Tier.HOST) == self.residence.held(Tier.HOST) <= knobs.host_blocks
        assert all(self.residence.tier(block) is self.lying.get(block, Tier.DISK) for block in range(BLOCKS))
        assert self.residence.unused == len(self.foreseen)


KNOBS = st.fixed_dictionaries(
    {},
    optional={
        "device_blocks": st.integers(1, 6),
        "host_blocks": st.integers(0, 6),
        "policy": st.sampled_from(NAMES),
        "host_policy": st.sampled_from(NAMES),
        "promote_after": st.integers(1, 3),
    },
)


@settings(max_examples=250, deadline=None)
@given(accesses=TRACES, turned=st.dictionaries(st.integers(0, 60), KNOBS, max_size=6), data=st.data())
def test_whatever_is_turned_a_block_lies_in_one_tier_and_no_tier_holds_too_many(accesses: list[int], turned: dict[int, dict[str, Any]], data: st.DataObject):
    followed, knobs = Followed(accesses), {"device_blocks": 3, "host_blocks": 3}
    for lookup, block in enumerate(accesses):
        knobs |= turned.get(lookup, {})
        parsed = TiersKnobs.parse(knobs)
        followed.carry_out(followed.residence.configure(parsed, followed.sequence))
        followed.check(parsed)
        expected = followed.lying.get(block, Tier.DISK)
        found = followed.residence.look_up(block)
        assert found.tier is expected
        assert found.foreseen == (block in followed.foreseen)
        followed.foreseen.discard(block)
        followed.carry_out(found)
        guess = data.draw(st.integers(0, BLOCKS - 1))
        if followed.residence.tier(guess) is not Tier.DEVICE and parsed.device_blocks > 1:
            found = followed.residence.prefetch(guess, {block, guess})
            followed.carry_out(found)
            followed.foreseen.add(guess)
            assert followed.residence.tier(guess) is Tier.DEVICE
            assert parsed.promote_after > 1 or followed.residence.tier(block) is Tier.DEVICE
        followed.check(parsed)


# ---- LRU, event for event ------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(accesses=TRACES, device=st.integers(1, 6), host=st.integers(0, 6))
def test_lru_above_lru_is_one_lru_list_with_the_device_at_its_top(accesses: list[int], device: int, host: int):
    tiers = [
        Tier.DISK if distance is None or distance >= device + host else Tier.DEVICE if distance < device else Tier.HOST
        for distance in lru_distances(accesses)
    ]
    assert found_in(accesses, device_blocks=device, host_blocks=host) == tiers


# ---- the bound -----------------------------------------------------------------------------------------------


@settings(max_examples=250, deadline=None)
@given(
    accesses=TRACES, device=st.integers(1, 5), host=st.integers(0, 5), policy=st.sampled_from(NAMES), host_policy=st.sampled_from(NAMES),
    promote_after=st.sampled_from([1, 1, 2, 3]),
)  # fmt: skip
def test_the_optimum_finds_at_least_as_many_on_the_device_and_in_memory_as_any_policies(
    accesses: list[int], device: int, host: int, policy: PolicyName, host_policy: PolicyName, promote_after: int
):
    sizes = {"device_blocks": device, "host_blocks": host, "promote_after": promote_after}
    bound = found_in(accesses, policy="belady", host_policy="belady", **sizes)
    other = found_in(accesses, policy=policy, host_policy=host_policy, **sizes)
    assert bound.count(Tier.DEVICE) >= other.count(Tier.DEVICE)
    assert bound.count(Tier.DISK) <= other.count(Tier.DISK)


@settings(max_examples=250, deadline=None)
@given(accesses=st.lists(st.integers(0, 5), min_size=1, max_size=14), device=st.integers(1, 3), host=st.integers(0, 3), may_pass=st.booleans())
def test_the_optimum_is_that_of_all_choices_in_both_tiers_at_once(accesses: list[int], device: int, host: int, may_pass: bool):
    bound = found_in(accesses, policy="belady", host_policy="belady", device_blocks=device, host_blocks=host, promote_after=2 if may_pass else 1)
    assert bound.count(Tier.DEVICE) == most_hits(accesses, device, may_pass)
    assert len(bound) - bound.count(Tier.DISK) == most_hits(accesses, device + host, may_pass)


@pytest.mark.parametrize("policy", NAMES)
def test_a_larger_device_is_no_worse_under_lru_and_the_optimum(policy: PolicyName):
    accesses = [(7 * place * place + 3 * place) % BLOCKS for place in range(200)]
    counts = [found_in(accesses, policy=policy, host_policy=policy, device_blocks=size, host_blocks=2).count(Tier.DEVICE) for size in range(1, 9)]
    if policy in ("lru", "belady"):
        assert counts == sorted(counts)
    assert found_in(accesses, policy=policy, device_blocks=BLOCKS).count(Tier.DISK) == len(set(accesses)), "each is read once where all fit"


# ---- what comes to the device --------------------------------------------------------------------------------


def test_a_block_comes_to_a_full_device_when_it_was_asked_for_often_enough():
    accesses = [0, 1, 5, 5, 5, 0]
    at_once = found_in(accesses, device_blocks=2, host_blocks=2)
    third = found_in(accesses, device_blocks=2, host_blocks=2, promote_after=3)
    assert at_once == [Tier.DISK, Tier.DISK, Tier.DISK, Tier.DEVICE, Tier.DEVICE, Tier.HOST]
    assert third == [Tier.DISK, Tier.DISK, Tier.DISK, Tier.HOST, Tier.HOST, Tier.HOST], "5 came with its third lookup, and 0 left for it"
    assert found_in([*accesses[:4], 0], device_blocks=2, host_blocks=2, promote_after=3)[-1] is Tier.DEVICE


def test_who_left_host_memory_has_to_be_asked_for_anew():
    sizes = {"device_blocks": 1, "host_blocks": 1, "promote_after": 3}
    assert found_in([0, 5, 5, 6, 5, 5, 5], **sizes)[-1] is Tier.HOST, "5 was dropped for 6, and came back: its lookups before that do not count"
    assert found_in([0, 5, 5, 6, 5, 5, 5, 5], **sizes)[-1] is Tier.DEVICE
    up_and_down = [0, 5, 5, 5, 6, 6, 6, 5, 5]
    assert found_in(up_and_down, **sizes)[-1] is Tier.HOST, "5 went up, came down for 6, and counts from there"


def test_without_host_memory_everybody_comes_at_once():
    assert found_in([0, 1, 1], device_blocks=1, host_blocks=0, promote_after=9) == [Tier.DISK, Tier.DISK, Tier.DEVICE]


def test_what_is_dropped_goes_before_the_block_comes_and_what_leaves_the_device_goes_after_it():
    residence = Residence()
    residence.configure(TiersKnobs.parse({"device_blocks": 1, "host_blocks": 1}), Accesses([0, 1, 2]))
    for block in (0, 1):
        residence.look_up(block)
    found = residence.look_up(2)
    assert found.moves == ((0, Tier.HOST, Tier.DISK), (2, Tier.DISK, Tier.DEVICE))
    assert found.demotions == ((1, Tier.DEVICE, Tier.HOST),)


# ---- turned while it runs ------------------------------------------------------------------------------------


def test_another_policy_takes_over_the_blocks_in_the_order_in_which_they_would_have_left():
    residence, sequence = Residence(), Accesses([0, 1, 2, 0, 3])
    residence.configure(TiersKnobs.parse({"device_blocks": 3}), sequence)
    for block in (0, 1, 2, 0):
        residence.look_up(block)
    residence.configure(TiersKnobs.parse({"device_blocks": 3, "policy": "clock"}), sequence)
    assert residence.look_up(3).demotions[0].block == 1


def test_the_optimum_learns_of_another_future():
    residence = Residence()
    knobs = TiersKnobs.parse({"device_blocks": 2, "policy": "belady", "host_policy": "belady"})
    residence.configure(knobs, Accesses([0, 1, 2, 0, 0, 0]))
    residence.look_up(0)
    residence.look_up(1)
    residence.configure(knobs, Accesses([9, 9, 2, 1, 1, 1, 0]))
    assert residence.look_up(2).demotions[0].block == 0


def test_smaller_tiers_let_their_least_wanted_go():
    residence, sequence = Residence(), Accesses(range(8))
    residence.configure(TiersKnobs.parse({"device_blocks": 4, "host_blocks": 4}), sequence)
    for block in range(8):
        residence.look_up(block)
    found = residence.configure(TiersKnobs.parse({"device_blocks": 2, "host_blocks": 3}), sequence)
    assert found is not None
    dropped, down = ([move.block for move in found.moves if move.target is tier] for tier in (Tier.DISK, Tier.HOST))
    assert (dropped, down) == ([0, 1, 2], [4, 5]), "host memory holds 3, and 4 and 5 from the device"
    assert {block for block in range(8) if residence.tier(block) is Tier.DEVICE} == {6, 7}
    assert residence.configure(TiersKnobs.parse({"device_blocks": 2, "host_blocks": 3}), sequence) is None
