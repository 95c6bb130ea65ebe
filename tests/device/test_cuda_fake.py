"""The cuda device on a recording fake: which calls it makes, in which order, and what it does when they fail.

The clock stands still unless a test advances it, for the host and for the fake GPU alike, so that every time is exact.
The clock's own stream is stream0, and its first anchor takes event0 to event3.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import monotonic, sleep
from typing import Any

import pytest

from labkit.device import live
from labkit.device.cuda import CudaDevice
from labkit.device.cuda_clock import TRIES, CudaClock
from labkit.device.cuda_lane import EventPool
from labkit.errors import DeviceError, NoSuchDevice, OpFailed, OpSkipped
from labkit.schedule import Handle, Lane, Op, Status
from labkit.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Trace
from tests.device.fake_cuda import FakeCuda, HandClock
from tests.threads import labkit_threads, threads_left

SECOND = 1_000_000_000
HANG_GUARD_S = 30


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    clock = HandClock()
    monkeypatch.setattr(live, "perf_counter_ns", clock.now_ns)
    return clock


@pytest.fixture
def fake(clock: HandClock) -> FakeCuda:
    return FakeCuda(clock)


@pytest.fixture
def device(fake: FakeCuda, clock: HandClock) -> Iterator[CudaDevice]:
    device = CudaDevice(0, api=fake)
    fake.calls.clear()
    yield device
    clock.advance(1000 * SECOND)
    device.cancel()
    device.close()
    assert fake.broken_rules == []
    assert threads_left() == []


@pytest.fixture
def gpu_op(fake: FakeCuda) -> Callable[..., Op]:
    """An op of this name on a stream, that enqueues work of this length."""

    def make(
        name: str, role: str, ns: int = 0, *, index: int = 0, do: Callable[..., Any] = lambda *_: None
    ) -> Op:
        def run(*values: Any) -> Any:
            fake.work(ns, name)
            return do(*values)

        return Op(name, Lane(role, index), run)

    return make


class HeldLoad:
    """An op on a worker that runs until it is let go."""

    def __init__(self, device: CudaDevice, role: str = "workers"):
        self._go = threading.Event()
        self.handle = device.submit(Op("load", Lane(role), lambda: self._go.wait(HANG_GUARD_S)))

    def let_go(self) -> None:
        self._go.set()
        until(lambda: self.handle.done)


def until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + HANG_GUARD_S
    while not condition():
        assert monotonic() < deadline, "it never happened"
        sleep(0.001)


def closed_trace(device: CudaDevice) -> Trace:
    device.close()
    return device.recorder.finish(device.now())


def times(handle: Handle) -> tuple[int, int]:
    return handle.start_ns, handle.end_ns


# ---- the order of calls ---------------------------------------------------------------------------------------


def test_an_op_on_another_stream_waits_for_the_end_event_of_what_it_needs_once(device, fake, gpu_op):
    copy = device.submit(gpu_op("copy", "h2d", 100))
    device.submit(gpu_op("step", "compute", 100), copy, after=(copy,))
    assert list(fake.calls) == [
        ("record", "event4", "stream1"),
        ("work", "copy", "stream1"),
        ("record", "event5", "stream1"),
        ("wait_event", "stream2", "event5"),
        ("record", "event6", "stream2"),
        ("work", "step", "stream2"),
        ("record", "event7", "stream2"),
    ]


def test_an_op_on_the_same_stream_waits_for_no_event(device, fake, gpu_op):
    first = device.submit(gpu_op("first", "compute", 100))
    device.submit(gpu_op("second", "compute", 100), first)
    assert [call[:2] for call in fake.calls] == [
        ("record", "event4"),
        ("work", "first"),
        ("record", "event5"),
        ("record", "event6"),
        ("work", "second"),
        ("record", "event7"),
    ]


def test_of_several_ops_on_one_stream_only_the_last_is_waited_for(device, fake, gpu_op):
    copies = [device.submit(gpu_op("copy", "h2d", 100)) for _ in range(3)]
    other = device.submit(gpu_op("back", "d2h", 100))
    fake.calls.clear()
    device.submit(gpu_op("step", "compute"), copies[1], copies[2], copies[0], other)
    waits = [call for call in fake.calls if call[0] == "wait_event"]
    assert waits == [("wait_event", "stream3", "event9"), ("wait_event", "stream3", "event11")]


def test_what_has_ended_is_not_waited_for(device, fake, gpu_op):
    copy = device.submit(gpu_op("copy", "h2d"))
    device.wait([copy])
    until(lambda: not device.flights)
    device.submit(gpu_op("step", "compute"), copy)
    assert not [call for call in fake.calls if call[0] == "wait_event"]


def test_lanes_of_one_role_are_streams_of_their_own(device, fake, gpu_op):
    device.submit(gpu_op("one", "compute", index=0))
    device.submit(gpu_op("two", "compute", index=1))
    assert [call[2] for call in fake.calls if call[0] == "work"] == ["stream1", "stream2"]
    assert fake.streams_made == 3


def test_a_value_is_handed_on_before_its_op_has_ended(device, clock, gpu_op):
    copy = device.submit(gpu_op("copy", "h2d", 100, do=lambda: "on its way"))
    step = device.submit(gpu_op("step", "compute", 100, do=lambda value: value + ", used"), copy)
    assert copy.status is Status.PENDING
    clock.advance(200)
    device.wait([step])
    assert step.value == "on its way, used"


def test_events_block_their_thread_and_burn_no_cpu_except_the_clocks(clock):
    made: list[bool] = []

    class Watched(FakeCuda):
        def event(self, blocking: bool):
            made.append(blocking)
            return super().event(blocking)

    fake = Watched(clock)
    device = CudaDevice(0, api=fake)
    device.wait([device.submit(Op("step", Lane("compute"), lambda: fake.work(0)))])
    device.close()
    assert made == [False] * (1 + TRIES) + [True] * 2


# ---- held back -------------------------------------------------------------------------------------------------


def test_an_op_that_needs_a_thread_is_enqueued_in_a_later_wait_and_the_trace_says_so(device, fake, gpu_op):
    load = HeldLoad(device)
    copy = device.submit(gpu_op("copy", "h2d"), load.handle)
    load.let_go()
    assert list(fake.calls) == [], "not before the host comes by"
    assert device.wait([copy]) == [copy]
    assert [call[0] for call in fake.calls] == ["record", "work", "record"]
    frame = closed_trace(device).frame()[["op", "kind", "name", "lane", "deps"]]
    assert frame.to_records(index=False).tolist() == [
        (0, KIND_OP, "load", "workers", ()),
        (1, KIND_OP, "copy", "h2d", (0,)),
        (2, KIND_LAUNCH, "launch", "host", (1,)),
        (3, KIND_WAIT, "wait", "host", (1,)),
    ]


def test_a_host_that_waits_is_woken_to_enqueue_and_waits_on(device, gpu_op):
    load = HeldLoad(device)
    copy = device.submit(gpu_op("copy", "h2d"), load.handle)
    step = device.submit(gpu_op("step", "compute"), copy)
    threading.Timer(0.05, load.let_go).start()
    assert device.wait([step]) == [step]
    trace = closed_trace(device)
    assert trace["kind"].tolist() == [KIND_OP] * 3 + [KIND_WAIT, KIND_LAUNCH, KIND_LAUNCH, KIND_WAIT]
    assert trace.deps(3).tolist() == [step.id, load.handle.id] and trace["woke_by"][3] == load.handle.id
    assert [trace.deps(row).tolist() for row in (4, 5)] == [[copy.id], [step.id]]
    assert trace.deps(6).tolist() == [step.id] and trace["woke_by"][6] == step.id


def test_it_is_enqueued_in_a_later_submit_too(device, fake, gpu_op):
    load = HeldLoad(device)
    device.submit(gpu_op("copy", "h2d"), load.handle)
    load.let_go()
    device.submit(Op("other", Lane("workers"), int))
    assert [call[:2] for call in fake.calls] == [("record", "event4"), ("work", "copy"), ("record", "event5")]


def test_what_follows_on_its_lane_is_held_back_with_it_and_other_lanes_are_not(device, fake, gpu_op):
    load = HeldLoad(device)
    device.submit(gpu_op("copy 1", "h2d"), load.handle)
    device.submit(gpu_op("copy 2", "h2d"))
    device.submit(gpu_op("step", "compute"))
    assert [call[1] for call in fake.calls if call[0] == "work"] == ["step"]
    load.let_go()
    device.close()
    assert [call[1] for call in fake.calls if call[0] == "work"] == ["step", "copy 1", "copy 2"]


def test_two_lanes_held_back_by_two_threads_are_enqueued_as_each_ends(device, fake, gpu_op):
    first, second = HeldLoad(device, "workers"), HeldLoad(device, "disk")
    copy = device.submit(gpu_op("copy", "h2d"), first.handle)
    back = device.submit(gpu_op("back", "d2h"), second.handle)
    second.let_go()
    assert device.wait([copy, back]) == [back]
    assert [call[1] for call in fake.calls if call[0] == "work"] == ["back"]
    first.let_go()
    assert device.wait([copy]) == [copy]


def test_a_blocking_op_that_is_held_back_is_enqueued_within_its_submit(device, gpu_op):
    load = HeldLoad(device)
    threading.Timer(0.05, load.let_go).start()
    op = gpu_op("copy", "h2d")
    copy = device.submit(Op("copy", op.lane, op.run, blocking=True), load.handle)
    assert copy.done and copy.seen


def test_a_deadline_holds_while_something_is_held_back(device, clock, gpu_op):
    load = HeldLoad(device)
    copy = device.submit(gpu_op("copy", "h2d"), load.handle)
    assert device.wait([copy], until=0) == []
    assert device.wait([copy], until=clock.now_ns() + 1_000_000) == []
    load.let_go()
    device.wait([copy])


def test_close_enqueues_what_is_held_back_as_the_threads_end(device, fake, gpu_op):
    load = HeldLoad(device)
    copy = device.submit(gpu_op("copy", "h2d"), load.handle)
    check = device.submit(Op("check", Lane("disk"), lambda _: None), copy)
    step = device.submit(gpu_op("step", "compute"), check)
    threading.Timer(0.05, load.let_go).start()
    assert device.close() == []
    assert [handle.status for handle in (copy, check, step)] == [Status.OK] * 3


# ---- times -----------------------------------------------------------------------------------------------------


def test_times_are_those_of_the_events_on_the_hosts_clock(device, clock, gpu_op):
    clock.advance(1_000)
    copy = device.submit(gpu_op("copy", "h2d", 100))
    step = device.submit(gpu_op("step", "compute", 50), copy)
    clock.advance(500)
    device.wait([step])
    device.wait([copy])
    assert times(copy) == (1_000, 1_100)
    assert times(step) == (1_100, 1_150)
    trace = closed_trace(device)
    assert trace["start_ns"].tolist()[:2] == [1_000, 1_100]
    assert trace["queued_ns"].tolist()[:2] == [1_000, 1_000]


def test_an_anchor_lies_midway_between_the_two_readings_around_it_and_keeps_half_their_distance():
    clock = HandClock(tick_ns=10)
    fake = FakeCuda(clock)
    cuda_clock = CudaClock(fake, clock.now_ns)
    assert cuda_clock.residual_ns == 10
    event = fake.event(blocking=True)
    fake.record(event, fake.stream())
    assert cuda_clock.span_ns(event, event) == (event.time_ns, event.time_ns)


def test_the_anchor_is_renewed_after_a_second_and_not_before(device, fake, clock, gpu_op):
    clock.advance(SECOND - 1)
    device.submit(gpu_op("step", "compute"))
    assert fake.events_made == 1 + TRIES + 2
    clock.advance(1)
    device.wait([], until=0)
    assert fake.events_made == 1 + TRIES + 2 + TRIES


def test_a_thousand_seconds_on_times_are_as_exact_as_at_the_start(device, clock, gpu_op):
    clock.advance(1000 * SECOND + 7)
    step = device.submit(gpu_op("step", "compute", 1_234))
    clock.advance(1_234)
    device.wait([step])
    assert times(step) == (1000 * SECOND + 7, 1000 * SECOND + 1_241)


def test_the_largest_residual_is_in_the_trace(fake, clock):
    device = CudaDevice(0, api=fake)
    assert device.recorder.meta["clock_residual_ns"] == 0
    clock.tick_ns = 400
    clock.advance(SECOND)
    device.wait([], until=0)
    clock.tick_ns = 0
    device.close()
    assert device.recorder.meta["clock_residual_ns"] == 400


@pytest.mark.parametrize("skew_ns", [-70_000, 70_000])
def test_clocks_that_disagree_put_no_op_before_its_submit_or_its_dependencies_or_past_now(clock, skew_ns):
    class Skewed(FakeCuda):
        def elapsed_ms(self, start, end):
            return super().elapsed_ms(start, end) + skew_ns / 1e6

    fake = Skewed(clock)
    device = CudaDevice(0, api=fake)
    clock.advance(100_000)
    handles: list[Handle] = []
    for role in ("h2d", "compute", "compute", "d2h"):
        handles.append(device.submit(Op(role, Lane(role), lambda *_: fake.work(1_000)), *handles[-1:]))
    clock.advance(4_000)
    device.wait(handles[-1:])
    assert handles[0].start_ns >= 100_000 and handles[-1].end_ns <= 104_004
    assert all(handle.start_ns < handle.end_ns for handle in handles)
    assert all(first.end_ns <= second.start_ns for first, second in pairwise(handles))
    device.close()


def test_submit_lasts_as_long_as_the_launch_did(device, clock, gpu_op):
    device.submit(gpu_op("step", "compute", do=lambda: clock.advance(30)))
    trace = closed_trace(device)
    assert (trace["submit_ns"][0], trace["queued_ns"][0]) == (0, 30)


# ---- failures --------------------------------------------------------------------------------------------------


def test_an_op_that_raises_while_it_is_enqueued_has_failed_at_once(device, fake, gpu_op):
    def full() -> None:
        raise MemoryError("out of memory")

    step = device.submit(gpu_op("step", "compute", do=full))
    assert step.status is Status.FAILED and times(step) == (-1, -1)
    after = device.submit(gpu_op("after", "compute"), step)
    assert after.status is Status.SKIPPED
    assert [call[:2] for call in fake.calls] == [("record", "event4"), ("work", "step"), ("record", "event5")]
    assert device.wait([step]) == [step]
    with pytest.raises(OpFailed, match="out of memory") as raised:
        _ = step.value
    assert isinstance(raised.value.cause, MemoryError) and raised.value.cause.__traceback__ is None
    bystander = device.submit(gpu_op("bystander", "compute"))
    device.wait([bystander])
    assert bystander.status is Status.OK


def test_an_error_that_the_device_meets_later_fails_its_op_and_skips_what_was_already_enqueued(
    device, fake, gpu_op
):
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    copy = device.submit(gpu_op("copy", "h2d", 100, do=lambda: fake.fail_later(error)))
    step = device.submit(gpu_op("step", "compute", 100), copy)
    back = device.submit(Op("back", Lane("workers"), lambda _: None), step)
    assert copy.status is Status.PENDING and not device.failed
    fake.clock.advance(200)
    assert device.wait([back]) == [back]
    assert [handle.status for handle in (copy, step, back)] == [Status.FAILED, Status.SKIPPED, Status.SKIPPED]
    assert device.failed
    with pytest.raises(OpSkipped) as raised:
        _ = back.value
    assert raised.value.cause is error
    assert [failure.op for failure in device.close()] == [copy.id]


def test_a_broken_context_is_reported_by_its_ops_and_by_close_and_wait_does_not_raise(fake, clock, gpu_op):
    device = CudaDevice(0, api=fake)
    fake.context_is_broken = True
    clock.advance(SECOND)
    step = device.submit(gpu_op("step", "compute"))
    assert device.wait([step]) == [step] and step.status is Status.FAILED
    assert [failure.name for failure in device.close()] == ["step"]
    assert device.recorder.meta["warnings"] == [
        "the GPU did not become idle: CUDA error: the context is broken"
    ]


# ---- cancel and close ------------------------------------------------------------------------------------------


def test_cancel_drops_what_is_held_back_and_lets_what_is_enqueued_end(device, clock, fake, gpu_op):
    running = device.submit(gpu_op("running", "compute", 100))
    load = HeldLoad(device)
    held = device.submit(gpu_op("held", "h2d"), load.handle)
    behind = device.submit(gpu_op("behind", "h2d"))
    device.cancel()
    assert [handle.status for handle in (running, held, behind)] == [
        Status.PENDING,
        Status.CANCELLED,
        Status.CANCELLED,
    ]
    late = device.submit(gpu_op("late", "compute"))
    assert late.status is Status.CANCELLED
    load.let_go()
    clock.advance(100)
    assert device.close() == []
    assert running.status is Status.OK and times(running) == (0, 100)
    assert [call[1] for call in fake.calls if call[0] == "work"] == ["running"]


def test_cancel_from_another_thread_frees_a_host_inside_a_blocking_op_that_is_held_back(device, gpu_op):
    load = HeldLoad(device)
    op = gpu_op("copy", "h2d")
    threading.Timer(0.05, device.cancel).start()
    copy = device.submit(Op("copy", op.lane, op.run, blocking=True), load.handle)
    assert copy.status is Status.CANCELLED
    load.let_go()


def test_close_waits_for_the_gpu_and_leaves_no_thread(device, fake, gpu_op):
    for role in ("h2d", "compute", "d2h"):
        device.submit(gpu_op("op", role))
    device.submit(Op("load", Lane("workers"), int))
    assert labkit_threads()
    device.close()
    device.close()
    assert [call for call in fake.calls if call == ("synchronize_all",)] == [("synchronize_all",)]
    assert threads_left() == []
    assert len(device.events) == 0 and device.flights == {}


# ---- events and arguments ---------------------------------------------------------------------------------------


def test_an_event_is_used_again_only_once_it_has_completed(device, clock, fake, gpu_op):
    """Ten ops in flight take twenty events; the next ten, after those, take the same twenty."""
    anchors = fake.events_made
    for _ in range(3):
        handles = [device.submit(gpu_op("step", "compute", 10)) for _ in range(10)]
        assert fake.events_made == anchors + 20
        clock.advance(100)
        for handle in handles:
            device.wait([handle])
        until(lambda: len(device.events) == 20)


def test_a_pool_makes_an_event_only_when_it_has_none():
    pool = EventPool(iter(["a", "b"]).__next__)
    first, second = pool.take(), pool.take()
    pool.give(first)
    assert (pool.take(), second, len(pool)) == ("a", "b", 0)


class Batch:
    """Something a weak reference can point to."""


@pytest.mark.parametrize("fails", [False, True])
def test_arguments_live_until_the_end_event_even_of_an_op_that_raised(device, clock, gpu_op, fails):
    def run(_: Batch) -> None:
        if fails:
            raise ValueError("boom")

    batch = Batch()
    reference = weakref.ref(batch)
    step = device.submit(gpu_op("step", "compute", 100, do=run), batch)
    del batch
    gc.collect()
    assert reference() is not None, "the device may still be reading it"
    clock.advance(100)
    device.wait([step])
    until(lambda: gc.collect() >= 0 and reference() is None)


# ---- spinning ---------------------------------------------------------------------------------------------------


def test_a_host_that_spins_sees_the_event_itself_and_needs_no_thread_to_wake(clock):
    class Sleepy(FakeCuda):
        """The thread that waits for an event sleeps on and on."""

        awake = threading.Event()

        def synchronize(self, event):
            if event.blocking:
                assert self.awake.wait(HANG_GUARD_S)

    fake = Sleepy(clock)
    device = CudaDevice(0, api=fake)
    handles = [device.submit(Op("step", Lane("compute"), lambda: fake.work(10))) for _ in range(2)]
    clock.advance(20)
    assert device.wait(handles[1:], how="spin") == handles[1:]
    assert [times(handle) for handle in handles] == [(0, 10), (10, 20)]
    assert len(device.events) == 0, "the thread still looks at them"
    fake.awake.set()
    device.close()
    assert fake.broken_rules == []


# ---- what it says of itself -------------------------------------------------------------------------------------


def test_it_says_what_it_is(device):
    assert (device.name, device.kind) == ("cuda:0", "cuda")
    assert device.label(Lane("h2d")) == "GPU stream h2d (Fake GPU)"
    assert device.label(Lane("compute", 1)) == "GPU stream compute1 (Fake GPU)"
    assert device.label(Lane("workers")) == "worker thread (CPU)"
    assert device.recorder.meta == {
        "device": "cuda:0",
        "measured": True,
        "device_label": "Fake GPU",
        "clock_residual_ns": 0,
        "cuda_version": "0.0",
    }


def test_a_stream_of_two_units_is_refused_and_a_second_stream_is_offered(device, fake):
    message = r"width 2 of lane 'h2d' is not allowed on cuda.*submit to Lane\('h2d', 1\)"
    with pytest.raises(DeviceError, match=message):
        device.resize("h2d", 2)
    with pytest.raises(DeviceError, match=message):
        CudaDevice(0, widths={"h2d": 2}, api=fake)


def test_without_a_gpu_it_is_refused_and_what_is_here_is_named():
    torch = pytest.importorskip("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with pytest.raises(NoSuchDevice, match=f"there is no cuda:{count} here"):
        CudaDevice(count)
