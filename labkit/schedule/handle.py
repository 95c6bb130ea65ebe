"""A handle stands for a submitted op: when it ran, how it ended, and what came out.

Devices fill handles in; kernels read them. A handle keeps the ids of its dependencies, never the handles
themselves, so that a run of any length holds only what is in flight.
"""

from enum import IntEnum
from typing import Any

from labkit.errors import ContractError, OpCancelled, OpFailed, OpSkipped


class Status(IntEnum):
    """How an op ended. Everything but PENDING counts as done."""

    PENDING = 0
    OK = 1
    FAILED = 2
    SKIPPED = 3
    CANCELLED = 4


_PENDING, _OK, _FAILED, _SKIPPED = Status.PENDING, Status.OK, Status.FAILED, Status.SKIPPED


class Handle:
    """Stands for one submitted op, on every device.

    id      its place in the host's program order, unique within the run
    name    the op's name
    status  a `Status`
    start_ns, end_ns  when it ran (device time); -1 until known
    seen    `wait` has returned it (or it ran inside `submit`), so its value may be read
    gate    device-private: what other lanes wait on
    """

    __slots__ = ("id", "name", "status", "start_ns", "end_ns", "seen", "reported", "error", "gate", "_value")

    def __init__(self, id: int, name: str, gate: Any = None):
        self.id = id
        self.name = name
        self.status = _PENDING
        self.start_ns = -1
        self.end_ns = -1
        self.seen = False
        self.reported = False
        self.error: BaseException | None = None
        self.gate = gate
        self._value: Any = None

    @property
    def done(self) -> bool:
        """It has ended, well or not. (On the simulated device: its end is known, not yet reached.)"""
        return self.status is not _PENDING

    @property
    def value(self) -> Any:
        """What the op returned. Legal once `wait` has returned this handle.

        Raises ContractError before that, OpFailed if the op raised, OpSkipped if something it depended on
        did not succeed, OpCancelled if the run was cancelled before it started.
        """
        if not self.seen:
            raise ContractError(
                f"the value of '{self.name}' (op {self.id}) was read before wait() returned its handle; "
                "wait for the handle first"
            )
        if self.status is _OK:
            return self._value
        self.reported = True
        raise self.failure()

    def failure(self) -> OpFailed:
        """The exception that reading `value` raises for an op that did not succeed."""
        if self.status is _FAILED:
            return OpFailed(f"'{self.name}' (op {self.id}) failed: {self.error!r}", self.error)
        if self.status is _SKIPPED:
            return OpSkipped(
                f"'{self.name}' (op {self.id}) was skipped: something it depended on did not succeed", self.error
            )
        return OpCancelled(f"'{self.name}' (op {self.id}) was cancelled before it started", self.error)

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self.name} {Status(self.status).name.lower()}>"
