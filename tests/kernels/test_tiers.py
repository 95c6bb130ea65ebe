"""Lookups in tiers in exact numbers on the virtual clock, and with what lies in each buffer looked at on threads."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import OpSkipped
from labkit.kernels.eviction import PolicyName
from labkit.kernels.prefetching import PrefetcherName
from labkit.kernels.tiers import tiers
from labkit.schedule import Budget, Status, Steps
from labkit.workloads.blocks import Tier
from tests.kernels.conftest import Watched, open_simulated
from tests.kernels.tabled import US, FakeTable, run_on_fake_cuda, run_on_threads, simulate, steps_of
from tests.kernels.tabled import rows as rows_of

DEVICE, HOST, DISK = Tier.DEVICE, Tier.HOST, Tier.DISK
SLACK_US = 0.1  # more than all the verbs of a lookup cost, at 1 ns each
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
PREFETCHERS: tuple[PrefetcherName, ...] = get_args(PrefetcherName)

# ---- latency -------------------------------------------------------------------------------------------------


def test_a_lookup_takes_what_lies_between_its_tier_and_the_answer():
    table = FakeTable([0, 1, 1, 0])
    simulate(table, steps_of(4, device_blocks=1, host_blocks=1))
    assert table.tiers == [DISK, DISK, DEVICE, HOST]
    disk, host, device = 100 + 30 + 5 + 2, 30 + 5 + 2, 5 + 2
    assert table.latencies_us() == pytest.approx([disk, disk, device, host], abs=SLACK_US)


def test_latency_falls_by_the_read_or_the_copy_when_a_miss_becomes_a_hit():
    loop = list(range(6))
    times = {}
    for device_blocks, host_blocks in ((1, 0), (1, 5), (6, 0)):
        table = FakeTable(loop)
        simulate(table, steps_of(60, device_blocks=device_blocks, host_blocks=host_blocks))
        assert len(set(table.tiers[6:])) == 1
        times[table.tiers[-1]] = sum(table.latencies_us()[6:]) / 54
    assert times[DISK] - times[HOST] == pytest.approx(100, abs=SLACK_US)
    assert times[HOST] - times[DEVICE] == pytest.approx(30, abs=SLACK_US)


def test_nobody_waits_for_the_block_that_leaves():
    quick, slow = FakeTable(list(range(4)), demote=0.001), FakeTable(list(range(4)), demote=90.0)
    for table in (quick, slow):
        simulate(table, steps_of(4, device_blocks=2, host_blocks=2))
    assert slow.times("demote") == 2
    assert slow.latencies_us() == pytest.approx(quick.latencies_us(), abs=SLACK_US)


def test_lookups_in_flight_are_read_at_once_as_far_as_there_are_disk_threads():
    paces = {}
    for threads, in_flight in ((1, 1), (1, 4), (2, 4), (4, 4)):
        trace = simulate(FakeTable(list(range(50))), steps_of(40, device_blocks=1, host_blocks=0, disk_threads=threads, in_flight=in_flight, staging=8))
        ends = trace["end_ns"][rows_of(trace, "answer")]
        paces[threads, in_flight] = (ends[-1] - ends[7]) / (len(ends) - 8) / US
    assert paces[1, 1] == pytest.approx(137, abs=1)
    assert paces[1, 4] == pytest.approx(100, abs=1), "copying and looking up hide behind reading"
    assert paces[2, 4] == pytest.approx(50, abs=2)
    assert paces[4, 4] == pytest.approx(137 / 4, abs=2), "four at once, each as long as it takes"


# ---- every move is billed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pattern", ["zipf", "scan", "loop", "mixture"])
def test_without_prefetch_there_is_one_read_for_each_miss_and_one_copy_for_each_lookup_that_is_not_on_the_device(policy: str, pattern: str):
    table = FakeTable()
    trace = simulate(table, steps_of(300, blocks=24, loop_blocks=12, device_blocks=4, host_blocks=5, policy=policy, host_policy=policy, pattern=pattern))
    found = {tier: table.tiers.count(tier) for tier in Tier}
    assert sum(found.values()) == 300
    assert len(rows_of(trace, "read")) == found[DISK]
    assert len(rows_of(trace, "promote")) == found[DISK] + found[HOST]
    assert len(rows_of(trace, "look up")) == len(rows_of(trace, "answer")) == 300
    assert (trace["status"] == Status.OK).all()


def test_what_is_looked_up_in_passing_is_copied_each_time_and_moves_nobody():
    table = FakeTable([0, 1, 1, 1])
    simulate(table, steps_of(4, device_blocks=1, host_blocks=1, promote_after=9))
    assert table.moved == [("read", 0), ("promote", 0), ("read", 1), ("promote", 1), ("promote", 1), ("promote", 1)]
    assert table.tiers == [DISK, DISK, HOST, HOST]


def test_the_warm_up_ends_where_the_budget_says():
    table, device = FakeTable([0]), open_simulated()
    tiers(device, table, Steps(steps_of(1)[0].knobs, Budget(steps=10, warmup=3), device.now))
    assert (table.counted_from, len(table.looked)) == (3, 13)
    simulate(table, steps_of(1))
    assert table.counted_from == 0


# ---- prefetching ---------------------------------------------------------------------------------------------


def test_a_prefetch_that_has_the_time_makes_a_lookup_as_quick_as_on_the_device():
    table = FakeTable(list(range(50)), read=3.0, promote=2.0)
    simulate(table, steps_of(40, blocks=50, device_blocks=4, host_blocks=0, prefetch="next-n", depth=1))
    assert table.tiers == [DISK, *[DEVICE] * 39]
    assert table.latencies_us()[1:] == pytest.approx([7] * 39, abs=SLACK_US)
    assert not any(looked.on_its_way for looked in table.looked)
    assert all(looked.foreseen for looked in table.looked[1:])


def test_one_that_has_not_is_waited_for_and_said_to_be_on_its_way():
    table = FakeTable(list(range(50)))
    simulate(table, steps_of(40, blocks=50, device_blocks=4, prefetch="next-n", depth=1, disk_threads=1))
    assert table.tiers == [DISK, *[DEVICE] * 39]
    assert all(looked.on_its_way for looked in table.looked[1:])
    assert table.latencies_us()[2:] == pytest.approx([100] * 38, abs=SLACK_US), "the disk never rests: a lookup takes as long as a read"


@pytest.mark.parametrize(("prefetch", "first_hit"), [("next-n", 99), ("stride", 3), ("markov", 11), ("oracle", 1)])
def test_who_foresees_a_strided_loop_and_from_when(prefetch: str, first_hit: int):
    strided = [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
    table = FakeTable(strided)
    simulate(table, steps_of(60, blocks=40, device_blocks=3, host_blocks=0, prefetch=prefetch, depth=1))
    found = [place for place, tier in enumerate(table.tiers) if tier is DEVICE]
    assert (found[0] if found else 99) == first_hit
    if prefetch == "stride":
        misses = [place for place, tier in enumerate(table.tiers) if tier is not DEVICE]
        assert misses[3:9] == [10, 11, 12, 20, 21, 22], "the end of the loop breaks the stride"


SMALL_TRACES = st.lists(st.integers(0, 11), min_size=2, max_size=40)


@settings(max_examples=120, deadline=None)
@given(
    looked_up=SMALL_TRACES, device_blocks=st.integers(2, 6), host_blocks=st.integers(0, 4), depth=st.integers(1, 6), policy=st.sampled_from(POLICIES),
    prefetch=st.sampled_from(PREFETCHERS), promote_after=st.integers(1, 3),
)  # fmt: skip
def test_the_oracle_finds_all_but_the_first_wastes_nothing_and_so_nobody_finds_more(
    looked_up: list[int], device_blocks: int, host_blocks: int, depth: int, policy: str, prefetch: str, promote_after: int
):
    sizes = {"blocks": 12, "device_blocks": device_blocks, "host_blocks": host_blocks, "depth": depth, "policy": policy, "promote_after": promote_after}
    bound, other = FakeTable(looked_up), FakeTable(looked_up)
    simulate(bound, steps_of(60, prefetch="oracle", **sizes))
    simulate(other, steps_of(60, prefetch=prefetch, **sizes))
    assert bound.tiers == [DISK, *[DEVICE] * 59]
    assert bound.wasted_blocks == []
    assert bound.tiers.count(DEVICE) >= other.tiers.count(DEVICE)


@pytest.mark.parametrize("queue", [1, 2, 5])
def test_no_more_prefetches_are_on_their_way_than_may_be(queue: int):
    table, device, most = FakeTable([0, 100], read=1000.0), open_simulated(), 0

    def look(op: Any) -> None:
        nonlocal most
        most = max(most, watched.in_flight("promote"))

    watched = Watched(device, look)
    tiers(watched, table, steps_of(40, device_blocks=30, blocks=200, prefetch="next-n", depth=8, prefetch_queue=queue, pattern="scan"))
    assert queue <= most <= queue + 1, "one of them is the lookup's own"


def test_a_block_in_host_memory_does_not_wait_for_one_that_is_read_ahead():
    table = FakeTable([0, 1, 2, 0], read=5000.0)
    changes = {3: {"prefetch": "none"}, 2: {"prefetch": "next-n", "depth": 1}}
    simulate(table, steps_of(4, changes, device_blocks=2, host_blocks=2))
    assert table.tiers[3] is HOST and table.come == [3]
    assert table.latencies_us()[3] == pytest.approx(30 + 5 + 2, abs=SLACK_US)


def test_on_a_device_of_one_block_there_is_no_room_to_fetch_ahead():
    table = FakeTable(list(range(9)))
    simulate(table, steps_of(9, device_blocks=1, prefetch="oracle", depth=4))
    assert table.come == []


# ---- always --------------------------------------------------------------------------------------------------

TURNED = st.fixed_dictionaries(
    {},
    optional={
        "device_blocks": st.integers(1, 5),
        "host_blocks": st.integers(0, 5),
        "policy": st.sampled_from(POLICIES),
        "host_policy": st.sampled_from(POLICIES),
        "promote_after": st.integers(1, 3),
        "prefetch": st.sampled_from(PREFETCHERS),
        "depth": st.integers(1, 5),
        "prefetch_queue": st.integers(1, 4),
        "in_flight": st.integers(1, 5),
        "staging": st.integers(1, 3),
        "pattern": st.sampled_from(["zipf", "scan", "loop", "mixture"]),
    },
)
CHANGES = st.dictionaries(st.integers(0, 39), TURNED, max_size=6)
START = {"blocks": 12, "loop_blocks": 7, "device_blocks": 3, "host_blocks": 3}


@settings(max_examples=150, deadline=None)
@given(changes=CHANGES, threads=st.integers(1, 3))
def test_whatever_is_turned_every_lookup_is_answered_in_order_and_every_prefetch_accounted_for(changes: dict[int, dict[str, Any]], threads: int):
    table = FakeTable()
    steps = steps_of(40, changes, disk_threads=threads, **START)
    trace = simulate(table, steps)
    assert (trace["status"] == Status.OK).all()
    table.check_buffers(trace)
    assert [looked.lookup for looked in table.looked] == list(range(40))
    assert len(table.wasted_blocks) + sum(looked.foreseen for looked in table.looked) <= len(table.come)
    assert table.times("read") <= table.tiers.count(DISK) + len(table.come)
    assert table.times("promote") == 40 - table.tiers.count(DEVICE) + len(table.come)
    for tier, size in ((DEVICE, "device_blocks"), (HOST, "host_blocks")):
        most = max(getattr(step.knobs, size) for step in steps) + max(step.knobs.staging for step in steps)
        assert table.most_places[tier] <= most


@settings(max_examples=25, deadline=None)
@given(changes=CHANGES, threads=st.integers(1, 3))
def test_on_threads_nobody_reads_a_block_while_it_is_overwritten_and_hits_are_those_of_the_virtual_clock(changes: dict[int, dict[str, Any]], threads: int):
    real, virtual = FakeTable(), FakeTable()
    steps = steps_of(40, changes, disk_threads=threads, **START)
    run_on_threads(real, steps)
    simulate(virtual, steps)
    assert [(looked.block, looked.tier, looked.foreseen) for looked in real.looked] == [(looked.block, looked.tier, looked.foreseen) for looked in virtual.looked]
    assert real.moved == virtual.moved


@settings(max_examples=20, deadline=None)
@given(changes=CHANGES, threads=st.integers(1, 3))
def test_on_streams_too(changes: dict[int, dict[str, Any]], threads: int):
    virtual = FakeTable()
    steps = steps_of(40, changes, disk_threads=threads, **START)
    real, trace = run_on_fake_cuda(None, steps)
    simulate(virtual, steps)
    real.check_buffers(trace)
    assert real.tiers == virtual.tiers and real.moved == virtual.moved


def test_a_buffer_is_written_again_only_when_its_readers_are_done():
    """With one buffer more than there are blocks, and reading that takes long."""
    table = FakeTable(list(range(8)), **{"look up": 500.0})
    trace = simulate(table, steps_of(30, device_blocks=1, host_blocks=0, staging=1, in_flight=4))
    copies, lookups = rows_of(trace, "promote"), rows_of(trace, "look up")
    ends, starts = trace["end_ns"][lookups], trace["start_ns"][copies]
    assert (starts[2:] >= ends[:-2]).all(), "the copy after the next goes where this lookup looks"
    assert (starts[1:] < ends[:-1]).any(), "the next one does not wait for it"


# ---- turned while it runs ------------------------------------------------------------------------------------


def test_fewer_blocks_on_the_device_let_go_of_their_buffers_and_more_make_new_ones():
    table = FakeTable(list(range(10)))
    changes = {40: {"device_blocks": 2, "host_blocks": 1, "staging": 1}, 60: {"device_blocks": 9}}
    simulate(table, steps_of(55, changes, device_blocks=6, host_blocks=4, staging=2))
    assert (len(table.places[DEVICE]), len(table.places[HOST])) == (3, 2)
    table = FakeTable(list(range(10)))
    simulate(table, steps_of(100, changes, device_blocks=6, host_blocks=4, staging=2))
    assert len(table.places[DEVICE]) == 10


def test_another_pattern_goes_on_with_the_blocks_that_are_there():
    table = FakeTable()
    simulate(table, steps_of(20, {10: {"stride": 3}}, blocks=10, device_blocks=10, pattern="scan"))
    assert [looked.block for looked in table.looked] == [*range(10), 0, 3, 6, 9, 2, 5, 8, 1, 4, 7]
    assert table.tiers == [DISK] * 10 + [DEVICE] * 10


# ---- failures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["read", "promote", "look up"])
def test_what_fails_ends_the_run_with_its_reason_and_hangs_nobody(stage: str):
    device = open_simulated()
    with pytest.raises(OpSkipped, match=r"'answer' .* was skipped") as raised:
        tiers(device, FakeTable(list(range(20)), fails=(stage, 7)), steps_of(30, device_blocks=2, host_blocks=2))
    assert f"{stage} failed" in repr(raised.value.cause)
    device.close()


def test_a_cancelled_run_answers_nobody_it_has_no_answer_for():
    device, table = open_simulated(), FakeTable(list(range(20)))

    def steps():
        for step in steps_of(30, in_flight=3):
            if step.index == 10:
                device.cancel()
            yield step

    tiers(device, table, steps())
    assert len(table.looked) <= 10
    device.close()
