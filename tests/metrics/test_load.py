"""Who sets the pace: an open or a closed loop, a server at capacity, or a load generator that is the limit, or late."""

from dataclasses import replace

import numpy as np
import pytest

from labkit.metrics import Verdict, judge, summarize
from labkit.metrics.load import CLOSED, LATE_ALLOWED_NS, OPEN, generator_late
from labkit.trace import Trace
from labkit.trace.trace import REQUEST_COLUMNS
from labkit.units import NS_PER_MS
from tests.metrics.recorded import completing, recorded, row

STEADY = completing(list(range(100, 4100, 100)))
NEEDS = "; the load generator was the limit, 50 % is wanted"


def judged(trace: Trace, measured: bool = True) -> Verdict:
    return judge(summarize(trace, warmup_steps=5), trace, warmup_steps=5, measured=measured)


def paced(busy_ns: int, every_ns: int = 100, steps: int = 40) -> Trace:
    """A program that waits for a time, then for its op: the lane is busy for `busy_ns` of every 100 ns, the host never."""
    rows = []
    for step in range(steps):
        start = step * every_ns
        rows.append(row(2 * step, "step", "compute", start, start + busy_ns, step=step, items=1))
        rows.append(row(2 * step + 1, "wait", "host", start, start + every_ns, kind=1))
    return recorded(*rows, until_ns=steps * every_ns)


def with_requests(trace: Trace, late_ns: int, sent: int = 40) -> Trace:
    """The trace as that of a server, each of whose requests was taken in `late_ns` after it was due."""
    due = np.arange(sent) * 100
    columns = dict.fromkeys(REQUEST_COLUMNS, np.zeros(sent, np.int64))
    return replace(trace, requests={**columns, "due_ns": due, "admitted_ns": due + late_ns, "done_ns": due + late_ns})


def test_a_run_without_arrivals_is_a_closed_loop_which_is_a_fact_and_no_doubt():
    verdict = judged(STEADY)
    assert verdict == Verdict("VALID", ())
    assert CLOSED in verdict.facts and OPEN not in verdict.facts


def test_a_run_with_arrivals_is_an_open_loop():
    verdict = judged(with_requests(STEADY, 0))
    assert verdict == Verdict("VALID", ())
    assert OPEN in verdict.facts and CLOSED not in verdict.facts


def test_a_lane_that_is_never_out_of_work_is_at_capacity():
    assert "at capacity: compute always had work waiting, busy 100 % of the time" in judged(paced(100)).facts
    assert not any("capacity" in fact for fact in judged(paced(90)).facts)


def test_a_host_that_is_never_idle_is_at_capacity():
    trace = recorded(*[row(step, "inline", "host", 100 * step, 100 * step + 100, step=step, items=1) for step in range(40)], until_ns=4000)
    assert "at capacity: the host program always had work waiting, busy 100 % of the time" in judged(trace).facts


def test_where_nothing_was_busy_the_load_generator_was_the_limit():
    doubt = "no lane was busy and the host was not either: something ran at most 30 % of the time" + NEEDS
    assert judged(paced(30)) == Verdict("WEAK", (doubt,))
    assert judged(paced(50)) == Verdict("VALID", ())


def test_an_open_loop_below_capacity_is_what_it_is_meant_to_be():
    verdict = judged(with_requests(paced(30), 0))
    assert verdict == Verdict("VALID", ())
    assert verdict.facts[-1].startswith("below capacity: no lane was busy") and "that of the arrivals" in verdict.facts[-1]


def test_the_step_intervals_of_an_open_loop_may_spread_as_its_arrivals_do():
    uneven = completing(np.cumsum([40, 100, 160] * 21).tolist())
    assert judged(uneven).grade == "WEAK"
    assert judged(with_requests(uneven, 0)) == Verdict("VALID", ())


def test_a_generator_in_time_gives_no_reason():
    due = np.arange(0, 1000 * NS_PER_MS, NS_PER_MS)
    assert generator_late(due, due) is None
    assert generator_late(due, due + LATE_ALLOWED_NS) is None
    assert generator_late([], []) is None


@pytest.mark.parametrize(
    ("sent", "which"), [(1000, "p99 of the requests was"), (100, "p99 of the requests was"), (99, "p95 of the requests was"), (19, "the latest request was")]
)
def test_a_late_generator_is_told_by_the_highest_percentile_that_so_many_requests_have(sent: int, which: str):
    due = np.arange(sent) * NS_PER_MS
    reason = generator_late(due, due + 12 * NS_PER_MS)
    assert reason == f"the load generator was late: {which} sent 12 ms after it was due; up to 5 ms is let pass"


def test_one_late_request_in_a_thousand_is_let_pass_and_one_in_ten_is_not():
    due = np.arange(1000) * NS_PER_MS
    sent = due.copy()
    sent[500] += 80 * NS_PER_MS
    assert generator_late(due, sent) is None
    sent[::10] += 80 * NS_PER_MS
    assert "80 ms after it was due" in (generator_late(due, sent) or "")


def test_the_limit_of_lateness_can_be_given():
    assert generator_late([0, 0], [2, 2], allowed_ns=1) is not None
    assert generator_late([0, 0], [2, 2], allowed_ns=2) is None


def test_a_run_whose_requests_were_taken_in_late_is_weak_if_it_was_measured():
    late = with_requests(STEADY, 12 * NS_PER_MS)
    assert judged(late).reasons == ("the load generator was late: p95 of the requests was sent 12 ms after it was due; up to 5 ms is let pass",)
    assert len(judged(late, measured=False).reasons) == 1
