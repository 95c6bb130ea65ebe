"""Rows of an imported trace: an op as it ran, under a name that people can read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from labkit.schedule import Status
from labkit.trace.kineto.events import Event
from labkit.trace.recorder import Recorder, Row
from labkit.trace.trace import HOST, KIND_OP

NAME_CHARACTERS = 60


@dataclass
class Made:
    """What a file was made into, and what is to be said of it.

    notes  words → how many
    told   whether the file says when the host waited, so that its waits are told from its work
    """

    recorder: Recorder
    end_ns: int
    notes: Counter[str]
    told: bool


def finished(recorder: Recorder, units: Iterable[tuple[str, int]], notes: Counter[str], open_ns: int, told: bool) -> Made:
    """With every unit open throughout, and the host's. `open_ns`: when the first step began; the first submit, if that was earlier."""
    open_ns = min(open_ns, min(row[7] for row in recorder.rows))
    for lane, unit in sorted({(HOST, 0), *units}):
        recorder.open_unit(lane, unit, open_ns)
    return Made(recorder, max(row[10] for row in recorder.rows) + 1, notes, told)


def op_row(op: int, event: Event, unit: tuple[str, int], step: int, completes: bool, called: tuple[int, int], deps: tuple[int, ...] = ()) -> Row:
    """An op's row. `called`: when the host began to submit it and was done with that; `unit`: its lane and which unit there."""
    size = event.args.get("bytes", 0)
    moved = size if isinstance(size, int) and size >= 0 else 0
    return Row(op, KIND_OP, short(event.name), *unit, step, int(completes), *called, event.start_ns, event.end_ns, 0, moved, -1, Status.OK, deps)


def short(name: str) -> str:
    """A kernel's name without its template arguments and parameters: `at::native::elementwise_kernel`."""
    text = name.removeprefix("void ").strip().replace("(anonymous namespace)::", "")
    if text.startswith(("Memcpy", "Memset")):
        return text[:NAME_CHARACTERS]
    cut = min((place for place in (text.find("<"), text.find("(", 1)) if place > 0), default=len(text))
    head = text[:cut]
    return head if len(head) <= NAME_CHARACTERS else f"{head[: NAME_CHARACTERS - 1]}…"
