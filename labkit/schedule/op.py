"""An op: one piece of work for one lane, said once for every device."""

from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.schedule.cost import FREE, Cost

ROLES = ("host", "workers", "h2d", "compute", "d2h", "disk", "net")


class Lane(NamedTuple):
    """A queue named by its role; `index` tells several lanes of one role apart.

    Roles: `host` (the program's own thread), `workers` (a pool on the host), `h2d` and `d2h` (copies),
    `compute`, `disk`, `net`. Ops of a lane start in the order of their submission, one at a time for each
    unit of the lane's width.
    """

    role: str
    index: int = 0

    def __str__(self) -> str:
        return self.role if self.index == 0 else f"{self.role}{self.index}"


HOST = Lane("host")


class Op(NamedTuple):
    """One piece of work. (A named tuple: a frozen data class takes four times as long to make, and a run makes millions.)

    name             what people call it: "decode", "forward", ...
    lane             where it queues
    run              what it does: called with the values of the handles among the submitted arguments and the
                     other arguments as they are; never called on the simulated device
    cost             what it asks of the hardware
    step             the step it belongs to, -1 for none
    items            items that are complete when it ends (set on exactly one op of a step)
    blocking         the host is held inside `submit` until it has ended (a pageable copy, a synchronous read)
    simulated_value  its value on the simulated device; an exception instance makes it fail there
    """

    name: str
    lane: Lane
    run: Callable[..., Any]
    cost: Cost = FREE
    step: int = -1
    items: int = 0
    blocking: bool = False
    simulated_value: Any = None
