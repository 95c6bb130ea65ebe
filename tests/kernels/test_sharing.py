"""Several tenants in exact numbers on the virtual clock: whose turn it is, who is protected from whom, and that nobody is forgotten."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.experiments.tenants import TenantsKnobs
from labkit.schedule import Answer, Budget
from labkit.schedule.tenants import TenantArrivals
from tests.kernels.serving import MS, SLACK_NS
from tests.kernels.shared import flood, rows_of, serve_tenants, tenant

SERVED, REJECTED, EXPIRED, FAILED, CANCELLED = Answer
SHARES = ("fifo", "priority", "wfq", "static", "elastic")


def alone(name: str, weight: float = 1.0, priority: int = 0, **more: object):
    """A tenant that shares its batches with nobody."""
    return tenant(name, weight, priority, batchable_with=frozenset(name), **more)


# ---- whose turn it is ----------------------------------------------------------------------------------------


def test_first_come_first_served_takes_the_oldest_whoever_it_is_of():
    run = serve_tenants([tenant("A"), tenant("B", weight=9, priority=9)], [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1)], share="fifo")
    assert run.batches == [[0], [1], [2], [3], [4]]


def test_the_highest_priority_goes_first_but_nobody_is_thrown_out_of_a_batch():
    run = serve_tenants([tenant("A"), tenant("B", priority=5)], [(0, 0), (1, 0), (2, 1), (3, 1)], share="priority")
    assert run.batches == [[0], [2], [3], [1]]
    assert run.latency_ms == [10, 39, 18, 27]


def test_saturated_tenants_are_served_by_their_weights_to_within_one_batch():
    tenants = [alone("A", 1), alone("B", 2), alone("C", 4)]
    run = serve_tenants(tenants, flood([100, 200, 400]), share="wfq")
    for until in (70, 350, 700, 3500):
        served = run.served_of(until)
        total = sum(served)
        assert all(abs(had - total * weight / 7) <= 1 for had, weight in zip(served, (1, 2, 4), strict=True)), (until, served)


def test_what_is_shared_is_time_not_requests():
    tenants = [alone("A"), alone("B")]
    run = serve_tenants(tenants, flood([300, 300]), lambda n: 2.0 + n, share="wfq", policy="greedy", max_batch=8)
    served = run.fairness()
    assert [each.service.value for each in served.tenants] == pytest.approx([0.5, 0.5], abs=0.01)


def test_an_idle_tenant_saves_nothing_up():
    tenants = [alone("A"), alone("B")]
    late = [(0.0, 0)] * 200 + [(1000.0, 1)] * 50
    run = serve_tenants(tenants, late, share="wfq")
    after = [batch[0] for batch in run.batches_by_tenant[100:140]]
    assert max(len(list(group)) for group in _runs(after)) <= 2, "from then on they take turns; B has no second of its own to catch up"


def test_weights_of_any_size_neither_hang_nor_starve_the_rounding():
    for weights in ((1e-9, 1e9), (1 / 3, 2 / 3), (1e9, 1e9 - 1)):
        for share in SHARES:
            run = serve_tenants([alone("A", weights[0]), alone("B", weights[1])], flood([5, 5]), share=share, period=1.0, budget=Budget(seconds=1, warmup=0))
            assert len(run.answers) == 10


# ---- priority and ageing -------------------------------------------------------------------------------------


def _flooded_by(priority: int, **knobs: object):
    """A rare tenant of low priority beside one that alone would keep the device busy."""
    tenants = [alone("A", priority=priority), alone("B", priority=0)]
    requests = sorted([(9.0 * number, 0) for number in range(300)] + [(300.0 * number + 5, 1) for number in range(8)])
    return serve_tenants(tenants, requests, share="priority", **knobs)


def test_under_strict_priority_the_lowest_starves_and_the_detector_says_so():
    found = _flooded_by(5).fairness()
    assert [each.starved for each in found.tenants] == [False, True]
    assert found.starved[0].startswith("B starved: its requests waited for 2.")


@pytest.mark.parametrize("ageing", [20.0, 50.0])
@pytest.mark.parametrize("levels", [1, 4])
def test_ageing_bounds_the_wait_of_the_lowest(ageing: float, levels: int):
    """Whoever came more than levels × ageing later cannot be ahead; so what is ahead came before, or within that."""
    run = _flooded_by(levels, ageing=ageing)
    rare = rows_of(run, 1, "first_ns") - rows_of(run, 1, "due_ns")
    backlog_ms = max(np.array(run.latency_ms)[np.array(run.tenant_of) == 0])
    assert rare.max() <= (levels * ageing + backlog_ms + 10) * MS
    assert not any(each.starved for each in run.fairness().tenants)


@pytest.mark.parametrize("share", ["fifo", "wfq", "static", "elastic"])
def test_under_no_other_discipline_does_anybody_starve(share: str):
    tenants = [alone("A", priority=5), alone("B", weight=0.25)]
    requests = sorted([(5.0 * number, 0) for number in range(400)] + [(40.0 * number + 5, 1) for number in range(50)])
    run = serve_tenants(tenants, requests, share=share, budget=Budget(seconds=2, warmup=0))
    assert not any(each.starved for each in run.fairness().tenants), run.fairness().starved


@pytest.mark.parametrize("share", ["priority", "wfq"])
def test_the_urgent_tenant_s_tail_is_within_a_fifth_of_what_it_has_alone(share: str):
    """At 0.7 of the device for itself, beside a flood that would fill the rest three times over. A batch in service is not taken back: one
    of the flood's is what it may have to wait for."""
    urgent, flooding = alone("A", weight=99, priority=5, rate=70.0), alone("B", rate=100.0, arrivals="constant")
    ends = Budget(seconds=60, warmup=0)
    runs = [serve_tenants(those, TenantArrivals(those, None, None, 3), share=share, budget=ends) for those in ([urgent], [urgent, flooding])]
    alone_ms, shared_ms = (float(np.percentile((rows_of(run, 0, "done_ns") - rows_of(run, 0, "due_ns")) / MS, 99)) for run in runs)
    assert 1.0 <= shared_ms / alone_ms <= 1.2, (alone_ms, shared_ms)
    assert sum(runs[1].served_of(60_000)) > 5900, "and the device is never idle"


# ---- partitions ----------------------------------------------------------------------------------------------


def test_a_static_partition_leaves_unused_what_a_tenant_does_not_use():
    run = serve_tenants([alone("A", 1), alone("B", 3)], flood([100, 0]), share="static", period=10.0)
    assert run.served_of(400) == [pytest.approx(10, abs=2), 0], "a quarter of the device, whoever else wants it"


def test_a_static_partition_gives_each_its_share_and_no_more():
    run = serve_tenants([alone("A", 1), alone("B", 3)], flood([400, 400]), share="static", period=10.0)
    served = run.served_of(4000)
    assert served == [pytest.approx(100, abs=3), pytest.approx(300, abs=3)]


def test_what_a_tenant_has_not_used_is_saved_up_for_one_period_and_no_longer():
    tenants = [alone("A", 1), alone("B", 1)]
    burst = [(0.0, 0)] + [(1000.0, 0)] * 40
    run = serve_tenants(tenants, burst, share="static", period=100.0)
    begins = [ns / MS for ns in rows_of(run, 0, "first_ns").tolist()][1:]
    at_once = sum(1 for before, after in pairwise([1000.0, *begins]) if after - before <= 10.1)
    assert 9 <= at_once <= 12, "half of the device over 100 ms is 50 ms, spent while 50 ms more come in"
    assert begins[-1] - begins[-2] == pytest.approx(20.0, abs=0.1), "then at the pace of its share"


def test_an_elastic_partition_lends_what_nobody_claims():
    run = serve_tenants([alone("A", 1), alone("B", 3)], flood([100, 0]), share="elastic", period=10.0)
    assert run.served_of(401)[0] == 40, "the whole device"


def test_an_elastic_partition_protects_whoever_comes_back():
    tenants = [alone("A"), alone("B")]
    requests = [(0.0, 0)] * 600 + [(1000.0 + 25 * number, 1) for number in range(40)]
    run = serve_tenants(tenants, requests, share="elastic", period=50.0)
    waits = (rows_of(run, 1, "first_ns") - rows_of(run, 1, "due_ns")) / MS
    assert waits.max() <= 3 * 50.0 and waits[-6:].max() <= 11.0, "its half is there for it after a few periods"


def test_a_period_of_any_length_ends():
    for period in (1.0, 7.3, 60_000.0):
        run = serve_tenants([alone("A"), alone("B", 5)], flood([30, 30]), share="elastic", period=period)
        assert set(run.answers) == {SERVED}


# ---- batches -------------------------------------------------------------------------------------------------


def test_tenants_that_may_share_a_batch_do_and_others_never():
    partners = {"A": frozenset("AB"), "B": frozenset("AB"), "C": frozenset("C")}
    tenants = [tenant(name, batchable_with=partners[name]) for name in "ABC"]
    run = serve_tenants(tenants, flood([5, 5, 5]), share="wfq", policy="greedy", max_batch=4)
    assert all(len(set(batch)) == 1 or set(batch) == {0, 1} for batch in run.batches_by_tenant)
    assert any(set(batch) == {0, 1} for batch in run.batches_by_tenant)


def test_everybody_in_a_batch_may_share_it_with_everybody_else():
    partners = {"A": frozenset("ABC"), "B": frozenset("AB"), "C": frozenset("AC")}
    tenants = [tenant(name, batchable_with=partners[name]) for name in "ABC"]
    run = serve_tenants(tenants, flood([3, 9, 9]), share="fifo", policy="greedy", max_batch=8)
    assert all(not {1, 2} <= set(batch) for batch in run.batches_by_tenant)


def test_a_batch_of_several_is_charged_to_each_by_its_part():
    tenants = [tenant("A"), tenant("B")]
    run = serve_tenants(tenants, [(0, 0), (0, 0), (0, 0), (0, 1)], share="fifo", policy="greedy", max_batch=4)
    assert run.batches == [[0, 1, 2, 3]]
    assert [each.service.value for each in run.fairness().tenants] == [0.75, 0.25]


# ---- limits of each ------------------------------------------------------------------------------------------


def test_a_flood_fills_its_own_queue_and_nobody_else_s():
    run = serve_tenants([tenant("A"), tenant("B")], [(0.0, 0)] * 20 + [(1.0, 1)] * 3, share="wfq", queue_limit=5)
    answers = {place: [answer for answer, whose in zip(run.answers, run.tenant_of, strict=True) if whose == place] for place in (0, 1)}
    assert answers[0] == [SERVED] * 5 + [REJECTED] * 15
    assert answers[1] == [SERVED] * 3


def test_deadline_patience_and_promise_are_each_tenant_s_own():
    tenants = [tenant("A", deadline_ms=15.0), tenant("B", patience_ms=25.0), tenant("C", slo_ms=12.0)]
    run = serve_tenants(tenants, [(0, 2), (0, 0), (1, 0), (1, 1), (2, 1), (3, 1)], share="fifo", slo=99.0)
    assert run.answers[1] is SERVED
    expired = [place for place, answer in enumerate(run.answers) if answer is EXPIRED]
    gone = [place for place, answer in enumerate(run.answers) if answer is CANCELLED]
    assert all(run.tenant_of[place] == 0 for place in expired) and expired
    assert all(run.tenant_of[place] == 1 for place in gone) and gone
    assert sorted(set(run.column("slo_ns"))) == [12 * MS, 99 * MS]
    for place in expired:
        assert 0 <= run.column("done_ns")[place] - run.column("due_ns")[place] - 15 * MS <= SLACK_NS


# ---- turned while it runs ------------------------------------------------------------------------------------


def test_the_discipline_is_turned_while_it_runs():
    tenants = [alone("A", priority=0), alone("B", priority=5)]
    later = TenantsKnobs.parse({"model": "fixed", "slo": None, "policy": "none", "in_flight": 1, "share": "priority"})
    run = serve_tenants(tenants, flood([20, 20]), share="fifo", changes=lambda now_ns: later if now_ns >= 95 * MS else None)
    order = [batch[0] for batch in run.batches_by_tenant]
    assert order[:9] == [0] * 9 and order[11:30] == [1] * 19


def test_under_another_discipline_nobody_is_owed_anything_for_what_was_before():
    """A had the device for a second; under fair queueing it is not shut out until B has had a second as well."""
    tenants = [alone("A"), alone("B")]
    later = TenantsKnobs.parse({"model": "fixed", "slo": None, "policy": "none", "in_flight": 1, "share": "wfq"})
    requests = sorted([(0.0, 0)] * 200 + [(1000.0, 1)] * 100)
    run = serve_tenants(tenants, requests, share="fifo", changes=lambda now_ns: later if now_ns >= 1005 * MS else None)
    after = [batch[0] for batch in run.batches_by_tenant[102:140]]
    assert max(len(stretch) for stretch in _runs(after)) <= 2


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 3)), min_size=1, max_size=50).map(sorted),
    weights=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
    priorities=st.lists(st.integers(-3, 3), min_size=4, max_size=4),
    partners=st.lists(st.sets(st.sampled_from("ABCD")), min_size=4, max_size=4),
    share=st.sampled_from(SHARES),
    ageing=st.none() | st.floats(1, 50),
    policy=st.sampled_from(["none", "fixed", "greedy", "adaptive"]),
    max_batch=st.integers(1, 6),
    in_flight=st.integers(1, 3),
    queue_limit=st.integers(1, 12),
    deadline=st.none() | st.floats(0, 90),
    fails=st.sets(st.integers(0, 49), max_size=2),
)
def test_every_request_gets_one_answer_and_no_bound_is_broken(
    requests, weights, priorities, partners, share, ageing, policy, max_batch, in_flight, queue_limit, deadline, fails
):
    both = [frozenset(other for other in "ABCD" if "ABCD"[me] in partners["ABCD".index(other)] and other in partners[me]) | {"ABCD"[me]} for me in range(4)]
    tenants = [tenant("ABCD"[me], weights[me], priorities[me], batchable_with=both[me]) for me in range(4)]
    run = serve_tenants(
        tenants, requests, lambda n: 3.0 + n, fails=sorted(fails), share=share, ageing=ageing, policy=policy, max_batch=max_batch,
        in_flight=in_flight, queue_limit=queue_limit, deadline=deadline, period=20.0,
    )  # fmt: skip
    assert run.column("request") == list(range(len(requests)))
    sent = [request for batch in run.batches for request in batch]
    assert len(sent) == len(set(sent)) and all(len(batch) <= max_batch for batch in run.batches)
    for batch in run.batches_by_tenant:
        assert all("ABCD"[one] in both[other] for one in batch for other in batch)
    found = run.fairness()
    assert sum(sum(each.answers.values()) for each in found.tenants) == len(requests)
    if sent:
        assert sum(each.service.value for each in found.tenants) == pytest.approx(1.0)


@pytest.mark.parametrize("share", ["fifo", "priority", "wfq", "elastic"])
def test_while_somebody_waits_the_device_is_never_idle_but_under_a_static_partition(share: str):
    tenants = [alone("A", 1), alone("B", 5, 1)]
    run = serve_tenants(tenants, flood([60, 60], until_ms=300), share=share, period=10.0)
    compute = run.trace["lane"] == run.trace.lanes.index("compute")
    starts, ends = np.sort(run.trace["start_ns"][compute]), np.sort(run.trace["end_ns"][compute])
    assert (starts[1:] - ends[:-1]).max() <= SLACK_NS


# ---- arrivals ------------------------------------------------------------------------------------------------


def test_the_arrivals_of_a_tenant_do_not_depend_on_who_else_there_is():
    one, two = tenant("A", rate=100.0), tenant("B", rate=300.0)
    together = TenantArrivals([one, two], None, None, 0).take(10**9)
    apart = TenantArrivals([one], None, None, 0).take(10**9)
    assert [request.due_ns for request in together if request.tenant == 0] == [request.due_ns for request in apart]
    assert [request.id for request in together] == list(range(len(together)))
    assert all(before.due_ns <= after.due_ns for before, after in pairwise(together))
    assert len(together) == pytest.approx(400, rel=0.2)


def test_a_rate_for_all_keeps_their_proportions():
    tenants = [tenant("A", rate=100.0, arrivals="constant"), tenant("B", rate=300.0, arrivals="constant")]
    arrivals = TenantArrivals(tenants, 40.0, None, 0)
    taken = arrivals.take(10 * 10**9)
    assert [sum(request.tenant == place for request in taken) for place in (0, 1)] == [100, 300]
    arrivals.turn(10 * 10**9, None, "constant")
    more = arrivals.take(11 * 10**9)
    assert [sum(request.tenant == place for request in more) for place in (0, 1)] == [pytest.approx(100, abs=1), pytest.approx(300, abs=1)]


def _runs(values: list[int]) -> list[list[int]]:
    """Stretches of equal values."""
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][0] == value:
            found[-1].append(value)
        else:
            found.append([value])
    return found
