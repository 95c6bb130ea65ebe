"""The device contract: three verbs for the kernel, a few controls for the runner.

A kernel may use `now`, `submit` and `wait`, and nothing else. Everything below the line in `Device` is the
runner's: it opens, resizes, cancels and closes.

What every device promises (tests/device/test_contract.py runs the same cases on all of them):

- Ops of a lane start in the order of submission, one at a time for each unit of its width.
- An op starts once every handle among its arguments and in `after` is done and a unit of its lane is free. A unit
  that has taken an op whose dependencies are not done is occupied by it.
- Failed, skipped and cancelled count as done. `wait` never raises for an op; `Handle.value` does.
- An op on the `host` lane runs inside `submit`, in the host's own time. A `blocking` op holds the host inside `submit`
  until it has ended; the trace shows that as a wait after the submit.
- `wait(handles)` returns as soon as one of them is done, with all that are done at that moment.
- After `cancel`, ops that have not started are CANCELLED, `wait` returns at once, and `submit` gives CANCELLED handles.
- `close` returns the failures that nobody read, and leaves no thread, process or memory behind.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from labkit.errors import DeviceError
from labkit.schedule import ROLES, Handle, Lane, Op
from labkit.trace import Recorder

How = Literal["block", "spin"]
Kind = Literal["cpu", "cuda", "simulated"]


def check_width(role: str, width: int) -> None:
    """Raises DeviceError for a number of units that a lane cannot have."""
    if not isinstance(width, int) or width < 1:
        raise DeviceError(f"width {width!r} of lane '{role}' is not allowed: a whole number, 1 or more")


def checked_widths(widths: Mapping[str, int] | None) -> dict[str, int]:
    """The widths that a device is opened with. Raises DeviceError for a lane role that there is not, or a wrong width."""
    for role, width in (widths or {}).items():
        if role not in ROLES:
            raise DeviceError(f"there is no lane role {role!r}; there are: {', '.join(ROLES)}")
        check_width(role, width)
    return dict(widths or {})


@dataclass(frozen=True)
class Failure:
    """An op that failed and whose value nobody read."""

    op: int
    name: str
    error: BaseException


@runtime_checkable
class Device(Protocol):
    """Lanes, a clock, and three verbs."""

    name: str  # "cpu", "cuda:0", "simulated:h200"
    kind: Kind
    recorder: Recorder

    def now(self) -> int:
        """Integer nanoseconds since the device was opened."""
        ...

    def submit(self, op: Op, *args: Any, after: Iterable[Handle] = ()) -> Handle:
        """Put `op` on its lane. Handles among `args` are dependencies, and arrive in `op.run` as their values."""
        ...

    def wait(self, handles: Sequence[Handle], until: int | None = None, how: How = "block") -> list[Handle]:
        """Hold the host until one of `handles` is done or the clock reaches `until`; those that are done.

        Raises ContractError for no handles and no `until`.
        """
        ...

    # ---- the runner's -------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether an op has failed so far and nobody has read why."""
        ...

    def label(self, lane: Lane) -> str:
        """What the lane is, in honest words: "compute thread (CPU)"."""
        ...

    def resize(self, role: str, width: int) -> None:
        """Give the lanes of a role this many units from the next op on."""
        ...

    def cancel(self) -> None:
        """Drop what has not started, and wake `wait`. May be called from any thread, and more than once."""
        ...

    def close(self) -> list[Failure]:
        """End every lane (running ops finish first); the failures that nobody read. May be called again."""
        ...
