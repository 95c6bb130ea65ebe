"""A lane that is a CUDA stream: the host enqueues, the stream orders, and one thread waits for the ends.

An op on its stream stands between two events. Until the second has passed it is a `Flight`, which keeps the op's arguments
alive. What it depends on is met by the stream itself: on another stream by waiting for that op's end event, on its own by
order. The lane's thread takes the flights in order, sleeps until each end event has passed, and finishes the op.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from labkit.device.live import Entry, without_frames
from labkit.schedule import Handle, Lane, Status

if TYPE_CHECKING:
    from labkit.device.cuda import CudaDevice

_PENDING, _OK, _FAILED = Status.PENDING, Status.OK, Status.FAILED
_SKIPPED, _CANCELLED = Status.SKIPPED, Status.CANCELLED


class EventPool:
    """Events that are no longer on any stream, to be recorded again. The host takes, the lanes' threads give back."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make
        self._free: deque[Any] = deque()

    def __len__(self) -> int:
        return len(self._free)

    def take(self) -> Any:
        """An event that nothing waits for."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give(self, *events: Any) -> None:
        """Events that have completed and that nobody will look at again."""
        self._free.extend(events)

    def clear(self) -> None:
        """Forget every event."""
        self._free.clear()


@dataclass(slots=True, eq=False)
class Flight:
    """An op that has been enqueued. `entry`, and the op's arguments with it, goes when the end event has passed."""

    op_id: int
    entry: Entry | None
    lane: "StreamLane"
    start: Any
    end: Any
    launched_ns: int
    error: BaseException | None = None
    ended: bool = False


class StreamLane:
    """One stream of the device, and the thread that waits for its events."""

    def __init__(self, device: "CudaDevice", lane: Lane):
        self.stream = device.api.stream()
        self._device = device
        self._name = str(lane)
        self._lane = lane
        self._aloft: deque[Flight] = deque()
        self._landings: SimpleQueue[Flight | None] = SimpleQueue()
        self._last_end_ns = 0
        self._lock = Lock()
        device.recorder.open_unit(self._name, 0, device.now())
        self._thread = Thread(target=self._serve, name=f"labkit-{lane}-events", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Enqueue an op now if it may be, else let it wait for what holds it back."""
        if self._device.holds_back(entry, self._lane):
            self._device.put_off(entry)
        else:
            self.launch(entry, late=False)

    def close(self) -> None:
        """Let everything that has been enqueued end, and the thread with it."""
        self._landings.put(None)
        self._thread.join()

    # ---- on the host thread -------------------------------------------------------------------------------

    def launch(self, entry: Entry, late: bool) -> bool:
        """Enqueue an op that nothing holds back, or end it if it must not run; whether it was enqueued. Never raises."""
        broken = next((dep for dep in entry.deps if dep.status not in (_OK, _PENDING)), None)
        if self._device.cancelled:
            self._device._end_unrun(entry, _CANCELLED)
        elif broken is not None:
            self._device._end_unrun(entry, _SKIPPED, broken.error)
        else:
            self._take_off(entry, late)
            return True
        return False

    def _take_off(self, entry: Entry, late: bool) -> None:
        device, handle = self._device, entry.handle
        flight = Flight(handle.id, entry, self, device.events.take(), device.events.take(), device.now())
        error = self._enqueue(flight, entry)
        if not late:
            entry.queued_ns = device.now()
        if error is None:
            device.flights[handle.id] = flight
        else:
            flight.ended = True
            device._record(entry, self._name, 0, entry.queued_ns, -1, -1, _FAILED)
            device._finish(handle, _FAILED, None, error, -1, -1)
        self._aloft.append(flight)
        self._landings.put(flight)

    def _enqueue(self, flight: Flight, entry: Entry) -> BaseException | None:
        """Put the op on its stream between its events; what it raised. The end event is recorded in any case."""
        api, op = self._device.api, entry.op
        error: BaseException | None = None
        try:
            for other in self._awaited_flights(entry):
                api.wait_event(self.stream, other.end)
            with api.use_stream(self.stream):
                api.record(flight.start, self.stream)
                values = [item._value if type(item) is Handle else item for item in entry.args]
                entry.handle._value = op.run(*values)
        except BaseException as raised:  # as on every lane, the handle carries it
            error = without_frames(raised)
        try:
            api.record(flight.end, self.stream)
        except RuntimeError as raised:
            error = error or without_frames(raised)
        return error

    def _awaited_flights(self, entry: Entry) -> list[Flight]:
        """The latest flight on each other stream that the op depends on: the earlier ones of a stream end before it."""
        latest: dict[StreamLane, Flight] = {}
        for dep in entry.deps:
            flight = self._device.flights.get(dep.id)
            if flight is not None and flight.lane is not self:
                known = latest.get(flight.lane)
                if known is None or known.op_id < flight.op_id:
                    latest[flight.lane] = flight
        return list(latest.values())

    # ---- on the lane's own thread (and on a host that spins) ----------------------------------------------

    def reap(self) -> None:
        """Finish, in order, every op whose end event has passed."""
        with self._lock:
            while self._aloft and self._has_landed(self._aloft[0]):
                self._land(self._aloft.popleft())

    def _serve(self) -> None:
        device = self._device
        while (flight := self._landings.get()) is not None:
            try:
                device.api.synchronize(flight.end)
            except RuntimeError as raised:
                flight.error = without_frames(raised)
            self.reap()
            if flight.error is None:
                device.events.give(flight.start, flight.end)
            flight = None  # an ended op must not live on in this frame
        device.recorder.close_unit(self._name, 0, device.now())

    def _has_landed(self, flight: Flight) -> bool:
        try:
            return flight.error is not None or self._device.api.query(flight.end)
        except RuntimeError as raised:
            flight.error = without_frames(raised)
            return True

    def _land(self, flight: Flight) -> None:
        entry, flight.entry = flight.entry, None
        if entry is None or flight.ended:
            return
        device, handle = self._device, entry.handle
        broken = _first_broken(entry.deps)
        start = end = -1
        status, error = _OK, flight.error
        if broken is not None:
            status, error = _SKIPPED, broken.error
        elif error is None:
            try:
                start, end = self._times(flight, entry)
            except RuntimeError as raised:
                error = without_frames(raised)
        if error is not None and status is _OK:
            status = _FAILED
        device._record(entry, self._name, 0, entry.queued_ns, start, end, status)
        device._finish(handle, status, handle._value if status is _OK else None, error, start, end)
        del device.flights[flight.op_id]

    def _times(self, flight: Flight, entry: Entry) -> tuple[int, int]:
        """When the op ran. The clocks agree to some microseconds only: no op starts before what it waited for."""
        now = self._device.now()
        start, end = self._device.clock.span_ns(flight.start, flight.end)
        earliest = max([flight.launched_ns, self._last_end_ns, *[dep.end_ns for dep in entry.deps]])
        start = max(min(start, now - 1), earliest)
        end = max(min(end, now), start + 1)
        self._last_end_ns = end
        return start, end


def _first_broken(deps: list[Handle]) -> Handle | None:
    """The first of them that did not succeed. Their streams have passed them: at most their threads are behind."""
    for dep in deps:
        if dep.status is _PENDING:
            dep.gate.acquire()
            dep.gate.release()
    return next((dep for dep in deps if dep.status is not _OK), None)
