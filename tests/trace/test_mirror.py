"""The mirror of a recorder: put together from parts it is the same trace, at any moment and in bounded memory."""

from labkit.trace import Mark, Recorder, UnitSpan
from labkit.trace.mirror import Mirror, Parts


def test_parts_put_together_are_the_recorders_trace(make_row):
    recorder, mirror = Recorder(), Mirror()
    parts = Parts(recorder)
    recorder.open_unit("workers", 0, 0)
    for op in range(100):
        recorder.append(make_row(op, "workers", op * 10, op * 10 + 10))
        if op % 7 == 0:
            mirror.take(parts.take(op * 10 + 10))
    mirror.take(parts.take(1000))
    there, here = recorder.finish(1000), mirror.trace()
    assert here["op"].tolist() == there["op"].tolist()
    assert here["end_ns"].tolist() == there["end_ns"].tolist()
    assert here.units == there.units == (UnitSpan("workers", 0, 0, 1000),)


def test_each_row_and_mark_travels_once(make_row):
    recorder = Recorder()
    parts = Parts(recorder)
    recorder.append(make_row(0))
    recorder.mark(5, 0, "prefetch", 0, 4)
    first, second = parts.take(10), parts.take(20)
    assert (len(first.rows), first.marks) == (1, [Mark(5, 0, "prefetch", 0, 4)])
    assert (second.rows, second.marks) == ([], [])


def test_a_trace_of_a_moment_holds_nothing_that_ends_later(make_row):
    recorder, mirror = Recorder(), Mirror()
    for op in range(10):
        recorder.append(make_row(op, "workers", op * 10, op * 10 + 10))
    mirror.take(Parts(recorder).take(50))
    assert mirror.trace()["end_ns"].tolist() == [10, 20, 30, 40, 50]


def test_a_copy_is_not_changed_by_what_comes_later(make_row):
    recorder, mirror = Recorder(), Mirror()
    parts = Parts(recorder)
    recorder.append(make_row(0, "workers", 0, 10))
    mirror.take(parts.take(10))
    copy = mirror.copy()
    recorder.append(make_row(1, "workers", 10, 20))
    recorder.mark(15, 1, "prefetch", 0, 4)
    mirror.take(parts.take(20))
    assert (len(copy.trace()), copy.marks, copy.now_ns) == (1, [], 10)
    assert len(mirror.trace()) == 2


def test_past_its_cap_the_oldest_rows_are_dropped_and_counted(make_row):
    recorder, mirror = Recorder(), Mirror(cap=20)
    for op in range(100):
        recorder.append(make_row(op, "workers", op * 10, op * 10 + 10))
    mirror.take(Parts(recorder).take(1000))
    trace = mirror.trace()
    assert trace["op"].tolist() == list(range(80, 100))
    assert trace.dropped == 80
