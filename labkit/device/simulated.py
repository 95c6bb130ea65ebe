"""The simulated device: a fold over integers. No threads, no event heap, bit-for-bit repeatable.

    start = max(host time, unit free, ends of dependencies)        end = start + cost

`wait` moves the host's time to the end it awaited. No verb costs less than 1 ns. A cost is fixed when its op is
submitted, so sharing is an approximation, stated here: cores are handed out first come, first served and whole
(work is conserved, time slices are not modelled; on a cpu machine compute has a core of its own). What copies do to one
another is in `link.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from labkit.device.cost_model import CostModel, MeasuredCosts
from labkit.device.device import Failure, How, check_width, checked_widths
from labkit.device.link import OPPOSITE, Link
from labkit.device.machine import Machine
from labkit.errors import ContractError, DeviceError, OutOfDeviceMemory
from labkit.schedule import Cost, Handle, Lane, Op, Status
from labkit.trace import KIND_OP, KIND_WAIT, Recorder
from labkit.units import format_bytes

_OK, _FAILED, _SKIPPED, _CANCELLED = Status.OK, Status.FAILED, Status.SKIPPED, Status.CANCELLED

PRICES_KEPT = 4096


class SimulatedDevice:
    """Predicts how a kernel runs on `machine`.

    widths    units of each lane role, 1 where not given
    measured  op times that go before the machine's figures
    """

    kind = "simulated"

    def __init__(
        self,
        machine: Machine,
        *,
        widths: dict[str, int] | None = None,
        measured: MeasuredCosts | None = None,
        recorder: Recorder | None = None,
    ):
        self.name = f"simulated:{machine.name}"
        self.machine = machine
        self.recorder = recorder or Recorder()
        self._model = CostModel(machine, measured)
        self._widths = checked_widths(widths)
        self._units: dict[Lane, list[int]] = {}
        self._retired: dict[tuple[Lane, int], int] = {}
        self._costs: dict[tuple[str, str, Any], tuple[int, int, int, OutOfDeviceMemory | None]] = {}
        self._cores: list[int] = []
        self.cores = int(machine.get("cores") or 0)
        self.memory_bytes = machine.get("gpu_memory_bytes") if machine.kind == "cuda" else None
        self._core_roles = self._roles_on_cores()
        self._link = Link(machine)
        self._now = 0
        self._next_id = 0
        self._unread: dict[int, Handle] = {}
        self._cancelled_at: int | None = None
        self._closed = False
        self.recorder.open_unit("host", 0, 0)
        self.recorder.meta.update(device=self.name, device_label=f"simulated {machine.label}", measured=False)

    def now(self) -> int:
        """Virtual nanoseconds since the device was opened."""
        return self._now

    @property
    def failed(self) -> bool:
        """Whether an op has failed so far and nobody has read why."""
        if not self._unread:
            return False
        unread = (handle for handle in self._unread.values() if not handle.reported)
        return any(self._started(handle) and handle.end_ns <= self._now for handle in unread)

    def label(self, lane: Lane) -> str:
        """`simulated H200: h2d`."""
        return f"simulated {self.machine.label}: {lane}"

    def submit(self, op: Op, *args: Any, after: Iterable[Handle] = ()) -> Handle:
        """Place `op` on its lane's time line; its start and end are known at once."""
        if self._closed:
            raise DeviceError("the device is closed")
        entered = self._now
        lane = op.lane
        role = lane.role
        units = self._units.get(lane)
        if units is None:
            units = self._open_lane(lane)
        key = (op.name, role, op.cost)
        costs = self._costs.get(key)
        if costs is None:
            if len(self._costs) >= PRICES_KEPT:
                self._costs.clear()
            costs = self._costs[key] = self._price(op.name, role, op.cost)
        host_ns, duration, dispatch, too_large = costs
        queued = ready = entered + host_ns
        deps = []
        broken = None
        for source in (args, after):
            for item in source:
                if type(item) is Handle:
                    deps.append(item.id)
                    if item.end_ns > ready:
                        ready = item.end_ns
                    if item.status is not _OK:
                        broken = item
        handle = Handle(self._next_id, op.name)
        self._next_id += 1
        if broken is not None or self._cancelled_at is not None:
            return self._not_run(handle, op, broken, entered, queued, ready, tuple(deps))
        unit = 0
        free = units[0]
        if len(units) > 1:
            free = min(units)
            unit = units.index(free)
        start = (ready if ready >= free else free) + dispatch
        if self._cores and role in self._core_roles:
            start, core = self._core_at(start)
            self._cores[core] = start + duration
        elif role in OPPOSITE:
            start, duration = self._link.place(role, start, duration, entered)
        end = start + duration
        units[unit] = end
        if role == "host":
            queued = end
        self._now = queued
        value = op.simulated_value if too_large is None else too_large
        status = _OK
        if isinstance(value, BaseException):
            status = _FAILED
            handle.error = value
            self._unread[handle.id] = handle
        handle.status = status
        handle.start_ns = start
        handle.end_ns = end
        handle._value = value
        cost = op.cost
        self.recorder.append(
            (handle.id, KIND_OP, op.name, str(lane), unit, op.step, op.items if status is _OK else 0,
             entered, queued, start, end, cost.flop, cost.bytes, -1, status, tuple(deps))
        )  # fmt: skip
        if op.blocking and role != "host":
            self.wait([handle])
        handle.seen = handle.seen or role == "host"
        return handle

    def wait(self, handles: Sequence[Handle], until: int | None = None, how: How = "block") -> list[Handle]:
        """Move the host's time to the first end among `handles`, or to `until`."""
        if not handles and until is None:
            raise ContractError("wait([]) without a time would never return: give handles, or until=")
        entered = self._now
        first = handles[0] if len(handles) == 1 else min(handles, key=_end_of) if handles else None
        woke_by = -1
        if self._cancelled_at is not None:
            self._now = entered + 1
            for handle in handles:
                self._cut_off(handle)
        elif first is None or (until is not None and first.end_ns > until):
            self._now = max(entered + 1, until or 0)
        else:
            woke_by = first.id
            late = first.end_ns > entered
            self._now = first.end_ns + self._model.wake_ns if late else entered
            self._now = max(self._now, entered + 1)
        now = self._now
        done = [handle for handle in handles if handle.end_ns <= now]
        for handle in done:
            handle.seen = True
        self.recorder.append(
            (self._next_id, KIND_WAIT, "wait", "host", 0, -1, 0, entered, now, entered, now, 0, 0, woke_by, _OK,
             tuple([handle.id for handle in handles]))
        )  # fmt: skip
        self._next_id += 1
        return done

    def resize(self, role: str, width: int) -> None:
        """Give the lanes of a role this many units from now on; a unit that went comes back when its last op has ended."""
        check_width(role, width)
        self._widths[role] = width
        for lane, units in self._units.items():
            if lane.role != role:
                continue
            for unit in range(len(units), width):
                opens = max(self._now, self._retired.pop((lane, unit), 0))
                units.append(opens)
                self.recorder.open_unit(str(lane), unit, opens)
            while len(units) > width:
                unit, ends = len(units) - 1, max(units.pop(), self._now)
                self._retired[lane, unit] = ends
                self.recorder.close_unit(str(lane), unit, ends)
        self._share_cores()

    @property
    def compute_share(self) -> float:
        """Share of the GPU's compute units that kernels may use."""
        return self._model.compute_share

    def share_compute(self, share: float) -> None:
        """Give kernels this share of the GPU's compute units from the next op on. Raises DeviceError for a share that there is not."""
        if not 0 < share <= 1:
            raise DeviceError(f"a share of {share!r} of the compute units is not allowed: more than 0, at most 1")
        self._model.compute_share = share
        self._costs.clear()

    def limit_cores(self, cores: int) -> None:
        """Let the host have so many cores from the next op on; work that has been placed stays where it is."""
        if cores < 1:
            raise DeviceError(f"{cores!r} cores are not allowed: 1 or more")
        self.cores = cores
        self._core_roles = self._roles_on_cores()
        self._share_cores()

    def limit_memory(self, memory_bytes: int) -> None:
        """Let ops have so much of the GPU's memory from the next one on; one that needs more fails."""
        self.memory_bytes = memory_bytes
        self._costs.clear()

    def cancel(self) -> None:
        """What has not started by now never will."""
        if self._cancelled_at is None:
            self._cancelled_at = self._now

    def close(self) -> list[Failure]:
        """End the run; the failures that nobody read. The clock moves to the last end."""
        if not self._closed:
            self._closed = True
            if self._cancelled_at is not None:
                self._rewrite_cancelled(self._cancelled_at)
            ends = [row[10] for row in self.recorder.rows]
            self._now = max([self._now, *ends])
        unread = [handle for handle in self._unread.values() if not handle.reported and self._started(handle)]
        return [Failure(handle.id, handle.name, handle.error) for handle in unread if handle.error is not None]

    def _open_lane(self, lane: Lane) -> list[int]:
        units = self._units[lane] = [0] * self._widths.get(lane.role, 1)
        if lane.role != "host":
            for unit in range(len(units)):
                self.recorder.open_unit(str(lane), unit, 0)
        self._share_cores()
        return units

    def _price(self, name: str, role: str, cost: Cost) -> tuple[int, int, int, OutOfDeviceMemory | None]:
        model = self._model
        host_ns = 1 if role == "host" else model.host_ns(role, cost)
        dispatch_ns = 0 if role == "host" else model.dispatch_ns(role)
        return host_ns, model.duration_ns(name, role, cost), dispatch_ns, self._too_large(name, cost)

    def _too_large(self, name: str, cost: Cost) -> OutOfDeviceMemory | None:
        """Why an op does not fit into the GPU's memory; None where it does, and where the memory is the host's."""
        memory = self.memory_bytes
        if memory is None or cost.resident <= memory:
            return None
        needs, has = format_bytes(cost.resident), format_bytes(memory)
        whole = memory == self.machine.get("gpu_memory_bytes")
        where = f"{self.machine.label} has {has}" if whole else f"its share of {self.machine.label} is {has}"
        return OutOfDeviceMemory(f"'{name}' needs {needs} of device memory at once; {where}: use smaller batches")

    def _roles_on_cores(self) -> set[str]:
        """The lanes that share the host's cores: compute is among them where there is only one."""
        return {"workers", "host", "compute"} if self.machine.kind == "cpu" and self.cores == 1 else {"workers", "host"}

    def _share_cores(self) -> None:
        """Workers share the cores that compute has not taken for itself; that matters only where there are too few."""
        cores = self.cores
        computing = sum(len(units) for lane, units in self._units.items() if lane.role == "compute")
        if self.machine.kind == "cpu" and cores:
            cores = max(cores - computing, 1)  # the only core is everybody's
        busy_until = [free for lane, units in self._units.items() if lane.role in self._core_roles for free in units]
        if not cores or len(busy_until) <= cores:
            self._cores = []
        elif len(self._cores) != cores:
            self._cores = sorted(busy_until)[-cores:]

    def _core_at(self, ready: int) -> tuple[int, int]:
        """The core to take: the one idle for the shortest time, else the first to become free."""
        idle = [(free, core) for core, free in enumerate(self._cores) if free <= ready]
        if idle:
            return ready, max(idle)[1]
        free, core = min((free, core) for core, free in enumerate(self._cores))
        return free, core

    def _not_run(
        self, handle: Handle, op: Op, broken: Handle | None, entered: int, queued: int, ready: int, deps: tuple[int, ...]
    ) -> Handle:
        cancelled = self._cancelled_at is not None
        handle.status = _CANCELLED if cancelled else _SKIPPED
        handle.error = broken.error if broken is not None else None
        handle.start_ns = -1
        handle.end_ns = queued if cancelled else ready
        handle.seen = op.lane.role == "host" or op.blocking
        self._now = max(queued, handle.end_ns) if handle.seen else queued
        if broken is not None:
            broken.reported = broken.reported or broken.id not in self._unread
        self.recorder.append(
            (handle.id, KIND_OP, op.name, str(op.lane), 0, op.step, 0, entered, queued, -1, -1, 0, 0, -1,
             handle.status, deps)
        )  # fmt: skip
        return handle

    def _started(self, handle: Handle) -> bool:
        return self._cancelled_at is None or 0 <= handle.start_ns <= self._cancelled_at

    def _cut_off(self, handle: Handle) -> None:
        if self._cancelled_at is not None and handle.start_ns > self._cancelled_at:
            handle.status = _CANCELLED
            handle.start_ns, handle.end_ns = -1, self._cancelled_at
        elif handle.end_ns > self._now:
            self._now = handle.end_ns  # it was running: it finishes

    def _rewrite_cancelled(self, at: int) -> None:
        rows = self.recorder.rows
        for place, row in enumerate(rows):
            if row[1] == KIND_OP and row[9] > at:
                rows[place] = (*row[:6], 0, *row[7:9], -1, -1, 0, 0, -1, _CANCELLED, row[15])


def _end_of(handle: Handle) -> int:
    return handle.end_ns
