"""A request: what a serving program is asked for, when it was meant to come, and what became of it."""

from enum import IntEnum
from typing import NamedTuple


class Answer(IntEnum):
    """What became of a request. Every request that was sent gets exactly one."""

    SERVED = 0
    REJECTED = 1
    EXPIRED = 2
    FAILED = 3
    CANCELLED = 4


class Request(NamedTuple):
    """One request: its number from 0 in the order of arrival, when it is due (device time), and whose it is."""

    id: int
    due_ns: int
    tenant: int = 0
