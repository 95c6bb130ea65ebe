"""The cuda device: `h2d`, `compute` and `d2h` are streams, every other lane is threads.

Only the host thread enqueues CUDA work, as in any CUDA program. An op whose dependencies on thread lanes are done, or are
themselves on a stream, is enqueued inside its own `submit`. One that must wait for a thread is held back, with all that
follows on its lane, and is enqueued inside a later `submit` or `wait`: the trace shows that as a launch on the host's lane.

The start of a slice is its start event, so a busy lane means that the lane is occupied, gaps between launches
included. A stream op that did not succeed has no times: nobody knows how much of it ran.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from labkit.device.cores import share_torch_cores
from labkit.device.cuda_api import CudaApi, TorchCuda
from labkit.device.cuda_clock import CudaClock
from labkit.device.cuda_lane import EventPool, Flight, StreamLane
from labkit.device.device import Failure
from labkit.device.live import Entry, LiveDevice, ThreadLane
from labkit.errors import DeviceError
from labkit.schedule import Handle, Lane, Op, Status
from labkit.trace import KIND_LAUNCH, Recorder

STREAM_ROLES = ("h2d", "compute", "d2h")

_THREAD_LABELS = {
    "host": "host thread",
    "workers": "worker thread (CPU)",
    "disk": "disk thread",
    "net": "network thread",
}


class CudaDevice(LiveDevice):
    """One GPU. Open it on the thread that runs the kernel.

    index   which GPU, as CUDA counts them
    widths  threads of each thread-lane role, 1 where not given (a stream has one unit)
    api     the CUDA calls it makes; torch's, unless a test stands in
    Raises NoSuchDevice where there is no such GPU, DeviceError for a stream that is to be wider than 1.
    """

    kind = "cuda"

    def __init__(
        self,
        index: int,
        *,
        widths: dict[str, int] | None = None,
        recorder: Recorder | None = None,
        api: CudaApi | None = None,
    ):
        for role, width in (widths or {}).items():
            _check_width(role, width)
        self.api = api or TorchCuda(index)
        self.api.set_device()
        self.api.synchronize_all()  # makes the GPU's context, which takes long, before the clock starts
        super().__init__(f"cuda:{index}", widths=widths, recorder=recorder)
        self.clock = CudaClock(self.api, self.now)
        self.events = EventPool(lambda: self.api.event(blocking=True))
        self.flights: dict[int, Flight] = {}
        self._streams: list[StreamLane] = []
        self._pending: deque[Entry] = deque()
        self._gpu = self.api.device_name()
        self.recorder.meta.update(
            device_label=self._gpu, clock_residual_ns=self.clock.residual_ns, **self.api.versions()
        )

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` has been called."""
        return self._cancelled

    def label(self, lane: Lane) -> str:
        """`GPU stream compute (NVIDIA H200)`."""
        if lane.role in STREAM_ROLES:
            return f"GPU stream {lane} ({self._gpu})"
        return _THREAD_LABELS.get(lane.role, super().label(lane))

    def submit(self, op: Op, *args: Any, after: Iterable[Handle] = ()) -> Handle:
        """As every device's; ops that were held back and now may go are enqueued first."""
        self._launch_ready()
        return super().submit(op, *args, after=after)

    def resize(self, role: str, width: int) -> None:
        """As every device's, for thread lanes; a stream has one unit."""
        _check_width(role, width)
        super().resize(role, width)

    def cancel(self) -> None:
        """Drop what has not been enqueued and wake the host; what has been enqueued ends."""
        super().cancel()
        self._drop_pending()

    def close(self) -> list[Failure]:
        """End every lane: what is held back is enqueued as it may be, and the GPU is idle afterwards."""
        first = not self._closed
        if first:
            self._drain()
        failures = super().close()
        if first:
            self._settle()
        return failures

    # ---- what the lanes ask -------------------------------------------------------------------------------

    def holds_back(self, entry: Entry, lane: Lane) -> bool:
        """Whether an op of this lane has to wait for a thread, or for an op before it on its lane that does."""
        return self._holder(entry) is not None or any(waiting.op.lane == lane for waiting in self._pending)

    def put_off(self, entry: Entry) -> None:
        """Hold an op back until a later verb."""
        self._pending.append(entry)
        if self._cancelled:
            self._drop_pending()

    # ---- inside -------------------------------------------------------------------------------------------

    def _open_lane(self, lane: Lane) -> "ThreadLane | StreamLane":  # type: ignore[override]  # same three methods
        if lane.role not in STREAM_ROLES:
            return super()._open_lane(lane)
        self._streams.append(StreamLane(self, lane))
        return self._streams[-1]

    def _on_thread_start(self, lane: Lane) -> None:
        share_torch_cores(1)

    def _launch_ready(self) -> Sequence[Handle]:
        """Enqueue what is no longer held back, in program order; the thread ops that hold the rest back."""
        self.clock.renew()
        if not self._pending:
            return ()
        waiting: list[Entry] = []
        holders: dict[int, Handle] = {}
        stuck: set[Lane] = set()
        while (entry := self._next_pending()) is not None:
            holder = self._holder(entry) if entry.op.lane not in stuck else None
            if holder is None and entry.op.lane not in stuck:
                self._launch_late(entry)
                continue
            if holder is not None:
                holders[holder.id] = holder
            stuck.add(entry.op.lane)
            waiting.append(entry)
        self._pending.extend(waiting)
        if self._cancelled:
            self._drop_pending()
        held_back = {entry.handle.id for entry in waiting}
        return [holder for op_id, holder in holders.items() if op_id not in held_back]

    def _launch_late(self, entry: Entry) -> None:
        started = self.now()
        lane = self._lanes[entry.op.lane]
        if not lane.launch(entry, late=True):
            return
        ended = self.now()
        self.recorder.append(
            (self._next_id, KIND_LAUNCH, "launch", "host", 0, entry.op.step, 0, started, ended, started, ended, 0, 0, -1,
             Status.OK, (entry.handle.id,))
        )  # fmt: skip
        self._next_id += 1

    def _holder(self, entry: Entry) -> Handle | None:
        """The first dependency that is neither done nor on a stream. (An op leaves `flights` once it is done.)"""
        for dep in entry.deps:
            if dep.id not in self.flights and dep.status is Status.PENDING:
                return dep
        return None

    def _next_pending(self) -> Entry | None:
        try:
            return self._pending.popleft()
        except IndexError:
            return None

    def _drop_pending(self) -> None:
        """Cancel what is held back. From any thread: each op is taken by one of them only."""
        while (entry := self._next_pending()) is not None:
            self._end_unrun(entry, Status.CANCELLED)

    def _drain(self) -> None:
        """Enqueue everything that is held back. The first holder is always a thread's op: it ends by itself."""
        while held_back := self._launch_ready():
            held_back[0].gate.acquire()
            held_back[0].gate.release()

    def _settle(self) -> None:
        self.events.clear()
        self.recorder.meta["clock_residual_ns"] = self.clock.residual_ns
        try:
            self.api.synchronize_all()
        except RuntimeError as error:
            self.recorder.meta.setdefault("warnings", []).append(f"the GPU did not become idle: {error}")

    def _poll(self) -> None:
        """A host that spins looks at the events itself, and does not wait for the lanes' threads to wake."""
        for lane in self._streams:
            lane.reap()
        super()._poll()


def _check_width(role: str, width: int) -> None:
    if role in STREAM_ROLES and width != 1:
        raise DeviceError(
            f"width {width} of lane '{role}' is not allowed on cuda: a stream runs one op at a time (1); "
            f"for a second stream submit to Lane('{role}', 1)"
        )
