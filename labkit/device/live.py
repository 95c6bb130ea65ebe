"""What the measuring devices share: the wall clock, handles with gates, thread lanes, and the host's wait.

The cpu device is this and nothing more. The cuda device adds lanes that are streams (see `cuda.py`), by way of the two
hooks `_launch_ready` and `_open_lane`.

A handle's gate is a lock that is held until the op has ended: whoever needs the op acquires it and lets it go. The host
waits on a lock of its own, released by the first op to end that it watches.
"""

from collections.abc import Iterable, Sequence
from threading import Lock
from time import perf_counter_ns, sleep
from typing import Any

from labkit.device.device import Failure, How, Kind, check_width, checked_widths
from labkit.device.thread_lane import Entry, ThreadLane
from labkit.errors import ContractError, DeviceError
from labkit.schedule import Elsewhere, Handle, Lane, Op, Status
from labkit.trace import KIND_OP, KIND_WAIT, Recorder
from labkit.units import NS_PER_S

_PENDING, _OK, _FAILED = Status.PENDING, Status.OK, Status.FAILED
_SKIPPED, _CANCELLED = Status.SKIPPED, Status.CANCELLED


class LiveDevice:
    """A device whose lanes are threads and whose time is the host's monotonic clock."""

    kind: Kind = "cpu"

    def __init__(self, name: str, *, widths: dict[str, int] | None = None, recorder: Recorder | None = None):
        self.name = name
        self.recorder = recorder or Recorder()
        self._widths = checked_widths(widths)
        self._lanes: dict[Lane, ThreadLane] = {}
        self._lock = Lock()
        self._watched: frozenset[int] = frozenset()
        self._host_gate: Any = None
        self._woken_by = -1
        self._called, self._hears_calls = False, True
        self._next_id = 0
        self._failed: dict[int, Handle] = {}
        self._cancelled = False
        self._closed = False
        self._epoch_ns = perf_counter_ns()
        self.recorder.open_unit("host", 0, 0)
        self.recorder.meta.update(device=name, measured=True)

    # ---- the three verbs ----------------------------------------------------------------------------------

    def now(self) -> int:
        """Nanoseconds of the monotonic clock since the device was opened."""
        return perf_counter_ns() - self._epoch_ns

    def submit(self, op: Op, *args: Any, after: Iterable[Handle] = ()) -> Handle:
        """Queue `op` on its lane; on the host's lane, run it here."""
        entered = perf_counter_ns() - self._epoch_ns
        if self._closed:
            raise DeviceError("the device is closed")
        gate = Lock()
        gate.acquire()
        handle = Handle(self._next_id, op.name, gate)
        self._next_id += 1
        deps = [item for item in args if type(item) is Handle]
        deps += after
        entry = Entry(handle, op, args, deps, entered, entered)
        if self._cancelled:
            self._end_unrun(entry, _CANCELLED)
            handle.seen = op.blocking or op.lane.role == "host"
            return handle
        if op.lane.role == "host":
            self._run_on_host(entry)
            return handle
        lane = self._lanes.get(op.lane) or self._opened(op.lane)
        entry.queued_ns = perf_counter_ns() - self._epoch_ns
        lane.put(entry)
        if op.blocking:
            self._wait_until_done(handle)
        return handle

    def wait(self, handles: Sequence[Handle], until: int | None = None, how: How = "block") -> list[Handle]:
        """Hold the host until one of `handles` is done, or until the clock reaches `until`."""
        if not handles and until is None:
            raise ContractError("wait([]) without a time would never return: give handles, or until=")
        while True:
            held_back = self._launch_ready()
            awaited = [*handles, *held_back] if held_back else handles
            entered = perf_counter_ns() - self._epoch_ns
            woke_by = self._hold(awaited, until, spin=how == "spin")
            done = [handle for handle in handles if handle.status is not _PENDING]
            for handle in done:
                handle.seen = True
            self._record_wait(entered, woke_by, awaited)
            if done or woke_by < 0:
                return done

    # ---- the runner's -------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether an op has failed so far and nobody has read why."""
        return bool(self._failed) and any(not handle.reported for handle in list(self._failed.values()))

    def label(self, lane: Lane) -> str:
        """What the lane is, in honest words."""
        return f"{lane} thread"

    def resize(self, role: str, width: int) -> None:
        """Give the thread lanes of a role this many threads; those that go finish what was queued before."""
        check_width(role, width)
        self._widths[role] = width
        for lane, threads in self._lanes.items():
            if lane.role == role:
                threads.resize(width)

    def wake(self) -> None:
        """End the host's wait, or the next one where it does not wait now, as if its time had come. Safe from any thread.

        For programs whose intent comes from outside while they wait, such as a server whose requests another thread brings.
        """
        gate = None
        with self._lock:
            if self._hears_calls:
                gate, self._host_gate = self._host_gate, None
            self._called = gate is None
        if gate is not None:
            gate.release()

    def cancel(self) -> None:
        """Drop what has not started and wake the host. Safe from any thread, and more than once."""
        with self._lock:
            self._cancelled = True
            gate, self._host_gate = self._host_gate, None
        if gate is not None:
            gate.release()

    def close(self) -> list[Failure]:
        """End every lane, running and queued ops first (queued ones are dropped after `cancel`)."""
        if not self._closed:
            self._closed = True
            for lane in self._lanes.values():
                lane.close()
            self._lanes.clear()
        unread = [self._failed[op] for op in sorted(self._failed) if not self._failed[op].reported]
        return [Failure(handle.id, handle.name, handle.error) for handle in unread if handle.error is not None]

    # ---- hooks of the cuda device -------------------------------------------------------------------------

    def _open_lane(self, lane: Lane) -> "ThreadLane":
        return ThreadLane(self, lane, self._widths.get(lane.role, 1))

    def _launch_ready(self) -> Sequence[Handle]:
        """Enqueue what only the host may enqueue; the handles that the rest is still held back by."""
        return ()

    def _poll(self) -> None:
        """Called over and over while the host spins; lets the other threads run, or spinning would starve them."""
        sleep(0)

    def _on_thread_start(self, lane: Lane) -> None:
        """Called in each new lane thread before its first op."""

    def _on_thread_end(self, lane: Lane) -> None:
        """Called in each lane thread after its last op."""

    # ---- inside -------------------------------------------------------------------------------------------

    def _opened(self, lane: Lane) -> "ThreadLane":
        threads = self._lanes[lane] = self._open_lane(lane)
        return threads

    def _hold(self, awaited: Sequence[Handle], until: int | None, spin: bool) -> int:
        """Hold the host until one of `awaited` is done; its id, or -1 if the time came, somebody called, or the run was cancelled."""
        gate = Lock()
        gate.acquire()
        with self._lock:
            if self._cancelled:
                return -1
            if self._called and self._hears_calls:
                self._called = False
                return -1
            for handle in awaited:
                if handle.status is not _PENDING:
                    return handle.id
            self._watched, self._host_gate = frozenset([handle.id for handle in awaited]), gate
            self._woken_by = -1
        left_ns = None if until is None else until - (perf_counter_ns() - self._epoch_ns)
        self._acquire(gate, left_ns, spin)
        with self._lock:
            self._watched, self._host_gate = frozenset(), None
            return self._woken_by

    def _acquire(self, gate: Any, left_ns: int | None, spin: bool) -> None:
        """Acquire `gate`, or give up after `left_ns`."""
        if spin:
            deadline = None if left_ns is None else perf_counter_ns() + left_ns
            while not gate.acquire(blocking=False):
                self._poll()
                if deadline is not None and perf_counter_ns() >= deadline:
                    return
        elif left_ns is None:
            gate.acquire()
        elif left_ns > 0:
            gate.acquire(timeout=left_ns / NS_PER_S)

    def _wait_until_done(self, handle: Handle) -> None:
        self._hears_calls = False  # they are for the program's own waits
        while handle.status is _PENDING and not self._cancelled:
            self.wait([handle])
        self._hears_calls = True
        if handle.status is _PENDING:
            handle.gate.acquire()
            handle.gate.release()
        handle.seen = True

    def _run_on_host(self, entry: Entry) -> None:
        for dep in entry.deps:
            if dep.status is _PENDING:
                self._wait_until_done(dep)
        self.run(entry, "host", 0)
        entry.handle.seen = True

    def run(self, entry: Entry, lane: str, unit: int) -> None:
        """Run one op in the calling thread, once what it depends on is done. Never raises."""
        handle, op = entry.handle, entry.op
        for dep in entry.deps:
            if dep.status is _PENDING:
                dep.gate.acquire()
                dep.gate.release()
        broken = next((dep for dep in entry.deps if dep.status is not _OK), None)
        start = end = -1
        value: Any = None
        error: BaseException | None = None
        if self._cancelled:
            status = _CANCELLED
        elif broken is not None:
            status, error = _SKIPPED, broken.error
            broken.reported = broken.reported or broken.status is not _FAILED
        else:
            values = [item._value if type(item) is Handle else item for item in entry.args]
            start = perf_counter_ns() - self._epoch_ns
            try:
                value = op.run(*values)
                status = _OK
            except BaseException as raised:  # a thread has nobody to raise to: the handle carries it
                status, error = _FAILED, without_frames(raised)
            end = max(perf_counter_ns() - self._epoch_ns, start + 1)
        queued = end if lane == "host" and end > 0 else entry.queued_ns
        if type(value) is Elsewhere:
            if lane != "host":
                start, end = self._within(value, start, end)
            value = value.value
        self._record(entry, lane, unit, queued, start, end, status)
        self._finish(handle, status, value, error, start, end)

    def _within(self, work: Elsewhere, start: int, end: int) -> tuple[int, int]:
        """When another process worked, in device time: at least 1 ns of the time for which its lane's thread was taken."""
        began = min(max(work.start_ns - self._epoch_ns, start), end - 1)
        return began, min(max(work.end_ns - self._epoch_ns, began + 1), end)

    def _end_unrun(self, entry: Entry, status: Status, error: BaseException | None = None) -> None:
        """End an op that never ran: skipped or cancelled."""
        self._record(entry, str(entry.op.lane), 0, entry.queued_ns, -1, -1, status)
        self._finish(entry.handle, status, None, error, -1, -1)

    def _record_wait(self, entered: int, woke_by: int, awaited: Sequence[Handle]) -> None:
        left = perf_counter_ns() - self._epoch_ns
        self.recorder.append(
            (self._next_id, KIND_WAIT, "wait", "host", 0, -1, 0, entered, left, entered, left, 0, 0, woke_by, _OK,
             tuple([handle.id for handle in awaited]))
        )  # fmt: skip
        self._next_id += 1

    def _record(self, entry: Entry, lane: str, unit: int, queued: int, start: int, end: int, status: Status) -> None:
        op, cost = entry.op, entry.op.cost
        self.recorder.append(
            (entry.handle.id, KIND_OP, op.name, lane, unit, op.step, op.items if status is _OK else 0,
             entry.submit_ns, queued, start, end, cost.flop, cost.bytes, -1, status,
             tuple([dep.id for dep in entry.deps]))
        )  # fmt: skip

    def _finish(
        self, handle: Handle, status: Status, value: Any, error: BaseException | None, start: int, end: int
    ) -> None:
        gate = None
        with self._lock:
            handle._value = value
            handle.error = error
            handle.start_ns, handle.end_ns = start, end
            handle.status = status
            if status is _FAILED:
                self._failed[handle.id] = handle
            if handle.id in self._watched:
                gate, self._host_gate = self._host_gate, None
                self._watched, self._woken_by = frozenset(), handle.id
        handle.gate.release()
        if gate is not None:
            gate.release()


def without_frames(error: BaseException) -> BaseException:
    """The exception, and those it came from, without their frames, whose locals would keep tensors alive."""
    links, seen = [error], set()
    while links:
        link = links.pop()
        if id(link) not in seen:
            seen.add(id(link))
            link.__traceback__ = None
            links += [before for before in (link.__cause__, link.__context__) if before is not None]
    return error
