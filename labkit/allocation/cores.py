"""CPU cores bound for the whole process: every thread that there is, and by inheritance every one that starts later.

Applied means: read back, each thread may run on no other core.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from labkit.allocation.ledger import Line, applied, not_applied
from labkit.errors import DataError

KEY = "reservation.cores"
_PASSES = 5
"""How often new threads are looked for while others are bound; one that is started in between inherits from a bound one sooner or later."""


class Threads(Protocol):
    """The threads of this process and the cores that each may use."""

    can_bind: bool

    def all(self) -> list[int]:
        """Their ids."""
        ...

    def cores_of(self, thread: int) -> set[int]:
        """Where a thread may run. Raises OSError where it has ended."""
        ...

    def bind(self, thread: int, cores: Iterable[int]) -> None:
        """Let a thread run there only. Raises OSError."""
        ...


class LinuxThreads:
    """`Threads` by way of /proc and the scheduler's calls."""

    can_bind = hasattr(os, "sched_setaffinity") and Path("/proc/self/task").is_dir()

    def all(self) -> list[int]:
        return [int(path.name) for path in Path("/proc/self/task").iterdir()]

    def cores_of(self, thread: int) -> set[int]:
        return os.sched_getaffinity(thread)

    def bind(self, thread: int, cores: Iterable[int]) -> None:
        os.sched_setaffinity(thread, cores)


def bind_cores(threads: Threads, wanted: int | list[int], undo: ExitStack) -> Line:
    """Bind the process. `undo` gets what puts every thread back. Raises DataError for cores that this process has not."""
    if not threads.can_bind:
        return not_applied(KEY, wanted, "this system has no call that binds threads to cores")
    chosen = chosen_cores(wanted, sorted(threads.cores_of(0)))
    remember(threads, undo)
    problem = place(threads, chosen)
    if problem:
        return not_applied(KEY, wanted, problem)
    words = f"every thread of the worker is bound to {cores_text(chosen)}; so are those that start later"
    return applied(KEY, wanted, words, chosen)


def remember(threads: Threads, undo: ExitStack) -> list[int]:
    """The cores that this process may use now. `undo` gets what puts every thread back where it is."""
    allowed = sorted(threads.cores_of(0))
    undo.callback(_put_back, threads, {thread: _cores_or_none(threads, thread) for thread in threads.all()}, allowed)
    return allowed


def chosen_cores(wanted: int | list[int], allowed: Sequence[int]) -> list[int]:
    """The cores that are meant, of those that this process may use. Raises DataError."""
    if isinstance(wanted, int):
        if wanted > len(allowed):
            raise DataError(f"{KEY}={wanted} is more than there are: this process may use {len(allowed)} ({cores_text(allowed)})")
        return list(allowed[:wanted])
    missing = [core for core in wanted if core not in allowed]
    if missing:
        raise DataError(f"{KEY}={wanted}: there is no core {missing[0]} for this process; it may use {cores_text(allowed)}")
    return sorted(wanted)


def place(threads: Threads, cores: Sequence[int]) -> str:
    """Bind every thread to these cores and read them back: "" where all agree, else what does not."""
    wanted = set(cores)
    astray: list[int] = []
    for _ in range(_PASSES):
        astray = [thread for thread in threads.all() if _cores_or_none(threads, thread) not in (None, wanted)]
        if not astray:
            return ""
        for thread in astray:
            try:
                threads.bind(thread, cores)
            except ProcessLookupError:
                pass  # it has just ended
            except OSError as error:
                return f"the system refused it: {error.strerror or error}"
    return f"{len(astray)} threads were not on {cores_text(cores)} when they were read back"


def outside(threads: Threads, cores: Iterable[int]) -> str:
    """What is wrong where a thread may run on another core than these; "" where none may."""
    wanted = set(cores)
    free = [thread for thread in threads.all() if not (_cores_or_none(threads, thread) or wanted) <= wanted]
    return f"{len(free)} threads were free to leave {cores_text(sorted(wanted))} at the end of the run" if free else ""


def cores_text(cores: Sequence[int]) -> str:
    """`core 3`, `cores 0, 1`."""
    return f"core{'s' if len(cores) != 1 else ''} {', '.join(map(str, cores))}"


def _cores_or_none(threads: Threads, thread: int) -> set[int] | None:
    """None for a thread that has ended."""
    try:
        return threads.cores_of(thread)
    except OSError:
        return None


def _put_back(threads: Threads, before: dict[int, set[int] | None], allowed: Sequence[int]) -> None:
    for thread in threads.all():
        try:
            threads.bind(thread, before.get(thread) or allowed)
        except OSError:
            pass  # it has just ended
