"""A recording fake of `CudaApi`: it writes down every call, keeps streams as folds over a clock, and polices the rules.

A stream is the time at which what was enqueued on it will have ended. `record` stamps an event with that time,
`wait_event` moves it to the event's, and `work` (called by an op's `run`) to a later one. The clock is the host's own, or
one that the test advances by hand.

It raises AssertionError (in `broken_rules` too, since the device turns what an op raises into a failed op) when work is
enqueued on another thread than the first, when an event is recorded again before it completed, and when the time of an
event is read before it completed.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, get_ident
from time import perf_counter_ns, sleep

import numpy as np


class HostClock:
    """The host's own clock."""

    def now_ns(self) -> int:
        return perf_counter_ns()

    def hold_until(self, time_ns: int) -> None:
        left_ns = time_ns - perf_counter_ns()
        if left_ns > 0:
            sleep(left_ns / 1e9)


class HandClock:
    """A clock that stands still until the test advances it; each reading may itself take `tick_ns`."""

    def __init__(self, tick_ns: int = 0):
        self.tick_ns = tick_ns
        self._now = 0
        self._moved = Condition()

    def now_ns(self) -> int:
        with self._moved:
            self._now += self.tick_ns
            return self._now

    def advance(self, ns: int) -> None:
        with self._moved:
            self._now += ns
            self._moved.notify_all()

    def hold_until(self, time_ns: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: self._now >= time_ns, timeout=30), "nobody advanced the clock"


class FakeStream:
    def __init__(self, number: int):
        self.name = f"stream{number}"
        self.free_ns = 0


class FakeEvent:
    def __init__(self, number: int, blocking: bool):
        self.name = f"event{number}"
        self.blocking = blocking
        self.time_ns: int | None = None
        self.error: RuntimeError | None = None


class FakeCuda:
    """One GPU that is not there. `calls` holds the last `keep` calls as tuples of names."""

    def __init__(self, clock: HostClock | HandClock | None = None, keep: int = 1000):
        self.clock = clock or HostClock()
        self.calls: deque[tuple[str, ...]] = deque(maxlen=keep)
        self.broken_rules: list[str] = []
        self.events_made = 0
        self.streams_made = 0
        self.context_is_broken = False
        self._host = get_ident()
        self._current: FakeStream | None = None
        self._next_error: RuntimeError | None = None

    # ---- what an op's run may do --------------------------------------------------------------------------

    def work(self, duration_ns: int, name: str = "kernel") -> None:
        """Enqueue work of this length on the current stream."""
        self._on_host_thread("work")
        assert self._current is not None, "work outside use_stream"
        self.calls.append(("work", name, self._current.name))
        self._current.free_ns = max(self._current.free_ns, self.clock.now_ns()) + duration_ns

    def fail_later(self, error: RuntimeError) -> None:
        """What was just enqueued will fail on the device: whoever looks at the next event is told."""
        self._next_error = error

    # ---- CudaApi ------------------------------------------------------------------------------------------

    def set_device(self) -> None:
        self.calls.append(("set_device",))

    def device_name(self) -> str:
        return "Fake GPU"

    def versions(self) -> dict[str, str]:
        return {"cuda_version": "0.0"}

    def stream(self) -> FakeStream:
        self.streams_made += 1
        return FakeStream(self.streams_made - 1)

    def event(self, blocking: bool) -> FakeEvent:
        self.events_made += 1
        return FakeEvent(self.events_made - 1, blocking)

    @contextmanager
    def use_stream(self, stream: FakeStream) -> Iterator[None]:
        self._on_host_thread("use_stream")
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        self._on_host_thread("record")
        if self.context_is_broken:
            raise RuntimeError("CUDA error: the context is broken")
        if event.time_ns is not None and event.time_ns > self.clock.now_ns():
            self._break(f"{event.name} was recorded again before it completed")
        self.calls.append(("record", event.name, stream.name))
        stream.free_ns = max(stream.free_ns, self.clock.now_ns())
        event.time_ns = stream.free_ns
        event.error, self._next_error = self._next_error, None

    def wait_event(self, stream: FakeStream, event: FakeEvent) -> None:
        self._on_host_thread("wait_event")
        self.calls.append(("wait_event", stream.name, event.name))
        stream.free_ns = max(stream.free_ns, event.time_ns or 0)

    def query(self, event: FakeEvent) -> bool:
        if event.time_ns is not None and event.time_ns > self.clock.now_ns():
            return False
        if event.error is not None:
            raise event.error
        return True

    def synchronize(self, event: FakeEvent) -> None:
        self.clock.hold_until(event.time_ns or 0)
        if event.error is not None:
            raise event.error

    def elapsed_ms(self, start: FakeEvent, end: FakeEvent) -> float:
        for event in (start, end):
            if event.time_ns is None or event.time_ns > self.clock.now_ns():
                self._break(f"the time of {event.name} was read before it completed")
        return float(np.float32((end.time_ns - start.time_ns) / 1e6))  # as coarse as CUDA's answer

    def synchronize_all(self) -> None:
        self.calls.append(("synchronize_all",))
        if self.context_is_broken:
            raise RuntimeError("CUDA error: the context is broken")

    # ---- inside -------------------------------------------------------------------------------------------

    def _on_host_thread(self, verb: str) -> None:
        if get_ident() != self._host:
            self._break(f"{verb} was called on another thread than the host's")

    def _break(self, rule: str) -> None:
        self.broken_rules.append(rule)
        raise AssertionError(rule)
