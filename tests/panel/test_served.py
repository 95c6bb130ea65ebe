"""What the strip says of requests, in exact numbers."""

from array import array

import pytest

from labkit.panel.frame import REQUESTS, STEPS
from labkit.panel.pulse import Pulse
from labkit.panel.segments import Segments
from labkit.panel.served import Served
from labkit.schedule import Answer
from labkit.trace import Mark
from labkit.trace.mirror import Part
from labkit.trace.recorder import RequestRow

MS, S = 1_000_000, 1_000_000_000


def part(now_s: float, requests: list[tuple[float, float, Answer]], waiting: int = 0, marks: list[Mark] | None = None) -> Part:
    """A part of a run: requests as (due in s, latency in ms, answer)."""
    rows = array("q")
    for number, (due_s, latency_ms, answer) in enumerate(requests):
        due = round(due_s * S)
        rows.extend(RequestRow(number, 0, due, due, due, due + round(latency_ms * MS), answer, 0, 1, 0))
    return Part(round(now_s * S), [], marks or [], (), {}, rows, {"waiting": waiting})


def told(served: Served) -> dict[str, str]:
    return dict(served.tiles(100.0, {"compute": 0.5, "host": 0.1, "d2h": None}))


def test_nothing_is_said_before_the_first_answer():
    served = Served()
    served.take(part(1, []), Segments(0))
    assert not served.any
    assert served.slowest_ns(S) is None


def test_the_slowest_answer_of_the_last_second_is_the_slowest_of_the_last_second():
    served = Served()
    served.take(part(1, [(0.1, 50, Answer.SERVED), (0.5, 10, Answer.SERVED), (0.9, 20, Answer.SERVED)]), Segments(0))
    assert served.slowest_ns(S) == 50 * MS
    assert served.slowest_ns(round(1.2 * S)) == 20 * MS
    assert served.slowest_ns(3 * S) is None


def test_an_answer_that_a_simulated_device_knows_beforehand_is_not_yet_there():
    served = Served()
    served.take(part(1, [(0.9, 500, Answer.SERVED), (0.5, 10, Answer.SERVED)]), Segments(0))
    assert served.slowest_ns(S) == 10 * MS
    assert served.slowest_ns(round(1.5 * S)) == 500 * MS


def test_percentiles_that_too_few_answers_have_are_absent():
    served = Served()
    served.take(part(1, [(n / 100, 10, Answer.SERVED) for n in range(99)], waiting=7), Segments(0))
    assert told(served)["latency p50 · p99"] == "10 ms · –"
    assert told(served)["waiting"] == "7"
    served.take(part(1.1, [(1.0, 10, Answer.SERVED)]), Segments(0))
    assert told(served)["latency p50 · p99"] == "10 ms · 10 ms"
    assert told(served)["busiest lane"] == "compute 50 %"


def test_those_without_an_answer_are_counted_and_have_no_latency():
    served = Served()
    served.take(part(1, [(0.1, 1, Answer.REJECTED), (0.2, 2, Answer.EXPIRED), (0.3, 30, Answer.SERVED)]), Segments(0))
    assert told(served)["waiting"] == "0, 2 unserved"
    assert told(served)["latency p50 · p99"] == "30 ms · –"


def test_a_toggle_is_marked_with_what_it_did_to_the_median_of_those_that_came_after_it():
    served, segments = Served(), Segments(0)
    served.take(part(1, [(n / 100, 12, Answer.SERVED) for n in range(50)]), segments)
    segments.toggle(Mark(S, 5, "policy", "none", "greedy"), 2)
    served.take(part(2, [(0.9, 12, Answer.SERVED)] * 30), segments)
    assert served.change_words(1) == "…", "they came before the toggle"
    served.take(part(3, [(1.0 + n / 100, 5, Answer.SERVED) for n in range(20)]), segments)
    assert served.change_words(1) == "median 12 ms → 5 ms"


@pytest.mark.parametrize("serves", [False, True])
def test_the_strip_says_what_its_lines_are(serves: bool):
    pulse = Pulse(0.0, 0)
    pulse.take(part(1, [(0.5, 25, Answer.SERVED)] if serves else []), 3)
    frame = pulse.frame(S, 0, "CPU threads", simulated=False)
    assert frame.series == (REQUESTS if serves else STEPS)
    assert next(name for name, _ in frame.tiles) == ("answers" if serves else "throughput")
    if serves:
        assert frame.points[0, 2] == 25
