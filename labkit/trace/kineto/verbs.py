"""The calls of all host threads as one program: each begins when the one before it has been left, as `Trace` wants it.

In training the threads alternate: one hands on to the other. Where they do run side by side, a launch is left when the next call begins, on
whatever thread, and a wait begins when the last of what was called during it is over: as long as any thread launches, the host works.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from labkit.trace.kineto.waits import Wait

BESIDE = "synchronisations beside one of another thread that ended as late: told once"


class Verb(NamedTuple):
    """A call of the host: a launch (`place` counts the ops) or a wait (it counts the waits)."""

    begun_ns: int
    is_wait: bool
    place: int
    left_ns: int


def one_program(launches: Sequence[tuple[int, int]], waits: Sequence[Wait], notes: Counter[str]) -> list[Verb]:
    """The verbs in order, none overlapping.

    launches  for each op when its launch began and returned
    """
    in_order = sorted(launches)
    verbs = [Verb(begun_ns, False, place, left_ns) for place, (begun_ns, left_ns) in enumerate(launches)]
    over_ns = -1
    for place in sorted(range(len(waits)), key=lambda place: waits[place].end_ns):
        start_ns, end_ns, _ = waits[place]
        before = bisect_left(in_order, (end_ns,)) - 1
        if before >= 0 and in_order[before][0] > start_ns:
            start_ns = min(in_order[before][1], end_ns - 1)
        start_ns = max(start_ns, over_ns)
        if start_ns >= end_ns:
            notes[BESIDE] += 1
            continue
        verbs.append(Verb(start_ns, True, place, end_ns))
        over_ns = end_ns
    verbs.sort()
    for at, (verb, after) in enumerate(pairwise(verbs)):
        if verb.left_ns > after.begun_ns:
            verbs[at] = verb._replace(left_ns=after.begun_ns)
    return verbs
