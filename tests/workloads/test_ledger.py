"""The ledger keeps the mean cost of each kind of op, and as many numbers as there are kinds."""

from labkit.schedule import Cost
from labkit.workloads.ledger import CostLedger


def test_an_empty_ledger_has_no_means():
    assert CostLedger().means() == {}


def test_the_mean_of_one_cost_is_that_cost():
    ledger = CostLedger()
    ledger.add("decode", Cost(flop=1, bytes=2, jpeg_pixels=3, fixed_ns=4, launches=5))
    assert ledger.means() == {"decode": Cost(flop=1, bytes=2, jpeg_pixels=3, fixed_ns=4, launches=5)}


def test_the_mean_is_taken_by_name_and_by_part_and_rounded_to_whole_numbers():
    ledger = CostLedger()
    for cost in (Cost(flop=10, bytes=1, launches=2), Cost(flop=20, bytes=2, launches=3), Cost(flop=31, bytes=2, launches=3)):
        ledger.add("forward", cost)
    ledger.add("decode", Cost(jpeg_pixels=1_000_000, fixed_ns=7))
    means = ledger.means()
    assert means["forward"] == Cost(flop=20, bytes=2, launches=3)
    assert means["decode"] == Cost(jpeg_pixels=1_000_000, fixed_ns=7)
    assert all(type(part) is int for part in means["forward"][:5])


def test_costs_too_large_for_a_float_are_summed_exactly():
    ledger = CostLedger()
    for _ in range(3):
        ledger.add("forward", Cost(flop=10**15 + 1))
    assert ledger.means()["forward"].flop == 10**15 + 1
