"""Counts over lookups: exact, after the warm-up, and absent where there is nothing to count."""

import pytest

from labkit.workloads import lookup_tally
from labkit.workloads.blocks import Looked, Tier
from labkit.workloads.lookup_tally import LookupTally


def looked(tier: Tier, ns: int, on_its_way: bool = False, foreseen: bool = False) -> Looked:
    return Looked(0, 0, tier, on_its_way, foreseen, 1000, 1000 + ns)


def test_lookups_are_counted_by_tier_with_their_latencies():
    tally = LookupTally(100)
    for tier, ns in ((Tier.DEVICE, 10), (Tier.DEVICE, 30), (Tier.HOST, 50), (Tier.DISK, 110)):
        tally.answered(0, looked(tier, ns))
    told = tally.results()
    assert (told["lookups"], told["device_found"], told["host_found"], told["disk_found"]) == (4, 2, 1, 1)
    assert (told["device_share"], told["host_share"], told["disk_share"]) == (0.5, 0.25, 0.25)
    assert (told["latency_mean_ns"], told["device_latency_mean_ns"], told["disk_latency_p50_ns"]) == (50, 20, 110)
    assert told["latency_p50_ns"] == 40


def test_a_percentile_of_too_few_lookups_is_absent():
    tally = LookupTally(100)
    for ns in range(1, 100):
        tally.answered(0, looked(Tier.HOST, ns))
    assert tally.results()["latency_p99_ns"] is None
    tally.answered(0, looked(Tier.HOST, 100))
    assert tally.results()["latency_p99_ns"] == pytest.approx(99.01)
    assert tally.results()["device_latency_p50_ns"] is None


def test_nothing_is_absent_and_not_zero():
    told = LookupTally(100).results()
    assert told["lookups"] == told["prefetches"] == 0
    assert told["device_share"] is told["latency_mean_ns"] is told["latency_p50_ns"] is told["disk_latency_mean_ns"] is None


def test_what_moves_is_counted_in_blocks_and_bytes():
    tally = LookupTally(100)
    for how, times in (("read", 3), ("promote", 5), ("demote", 2)):
        for _ in range(times):
            tally.moved(0, how)
    told = tally.results()
    assert (told["read_bytes"], told["promoted_bytes"], told["demoted_bytes"]) == (300, 500, 200)
    assert (told["blocks_read"], told["blocks_promoted"], told["blocks_demoted"]) == (3, 5, 2)


def test_prefetches_are_useful_or_wasted():
    tally = LookupTally(100)
    for _ in range(5):
        tally.prefetched(0)
    tally.wasted(0)
    tally.answered(0, looked(Tier.DEVICE, 10, foreseen=True))
    tally.answered(0, looked(Tier.DEVICE, 10, foreseen=True, on_its_way=True))
    told = tally.results()
    assert (told["prefetches"], told["prefetches_useful"], told["prefetches_wasted"], told["found_on_its_way"]) == (5, 2, 1, 1)


def test_a_warm_up_is_not_counted():
    tally = LookupTally(100, first_step=3)
    for step in range(5):
        tally.answered(step, looked(Tier.DEVICE, 10, True, True))
        tally.moved(step, "read")
        tally.prefetched(step)
        tally.wasted(step)
    told = tally.results()
    assert {told[name] for name in ("lookups", "blocks_read", "prefetches", "prefetches_wasted", "prefetches_useful", "found_on_its_way")} == {2}


def test_of_very_many_lookups_the_latest_latencies_are_kept_and_all_are_in_the_mean(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lookup_tally, "KEPT", 4)
    tally = LookupTally(100)
    for ns in (1, 2, 3, 4, 50, 60):
        tally.answered(0, looked(Tier.DEVICE, ns))
    told = tally.results()
    assert (told["device_found"], told["latency_mean_ns"], told["latency_p50_ns"]) == (6, 20, 27)
