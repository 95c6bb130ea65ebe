"""The shape of a replay: what the time of each item depends on, boiled down to what the loop must look at.

Most ops need no more than the host's time, the op before them on their lane, and one dependency. What is
known to have ended is left out: what the host has waited for, and what lies before that, or before the op
itself, on a lane of one unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from labkit.metrics.program import Program, Verb

PLAIN, SYNC, TWO, SPECIAL, WIDE = 0, 1, 2, 3, 4


class Special(NamedTuple):
    """An item that the loop's short paths do not cover.

    needs     items that must have ended
    awaited   the first of these to end will do
    deadline  what ends the wait at the latest, −1 for nothing
    sync      the host goes on at its end
    heap      the lane's heap of free units, −1 for none
    joined    for each unit that joins first, the item that used it last
    leaves    the unit leaves with it
    """

    needs: tuple[int, ...] = ()
    awaited: tuple[int, ...] = ()
    deadline: int = -1
    sync: bool = False
    heap: int = -1
    joined: tuple[int, ...] = ()
    leaves: bool = False


@dataclass(frozen=True)
class Shape:
    """By item: the path it takes (`WIDE` + n: a unit of heap n), and up to two items that it needs (0: none).

    widths  how many units each heap begins with
    """

    codes: list[int]
    first: list[int]
    second: list[int]
    specials: list[Special]
    widths: list[int]


def shape_of(program: Program, widths: Mapping[int, int], recorded_wakers: bool) -> Shape:
    """The shape of a replay with other `widths` (lane code → units) on some lanes.

    recorded_wakers  a wait over several ops ends with the one that ended it in the recording, not with the
                     first
    """
    return _Shaping(program, widths, recorded_wakers).shape()


class _Shaping:
    def __init__(self, program: Program, widths: Mapping[int, int], recorded_wakers: bool):
        self.program = program
        self.recorded_wakers = recorded_wakers
        self.lane = [-1, *program.lane_of.tolist()]
        self.verb = [-1, *program.verbs]
        self.ordered = {
            lane
            for lane, units in program.units.items()
            if (widths[lane] == 1 if lane in widths else units.ordered)
        }
        self.fixed = set(widths)
        wide = [lane for lane in program.units if lane not in self.ordered]
        self.heap = {lane: number for number, lane in enumerate(wide)}
        self.widths = [widths.get(lane, program.units[lane].initial) for lane in wide]
        self.last_on: dict[int, int] = {}
        self.known_upto: dict[int, int] = {}
        self.known: set[int] = set()
        self.specials: list[Special] = []

    def shape(self) -> Shape:
        paths = [self._path(item) for item in range(1, len(self.program) + 1)]
        codes, first, second = ([path[place] for path in paths] for place in range(3))
        return Shape(codes, first, second, self.specials, self.widths)

    def _path(self, item: int) -> tuple[int, int, int]:
        verb, lane = self.verb[item], self.lane[item]
        if verb == Verb.WAIT:
            return self._wait(item)
        needs = [
            need for need in dict.fromkeys(self.program.needs[item - 1]) if not self._implied(need, item)
        ]
        if verb == Verb.INLINE:
            self.known.add(item)
            return self._special(Special(tuple(needs), sync=True)) if len(needs) > 1 else (SYNC, *_two(needs))
        if verb == Verb.OP and lane not in self.ordered:
            return self._wide(item, lane, needs)
        if verb == Verb.OP:
            before = self.last_on.get(lane, 0)
            self.last_on[lane] = item
            if before > self.known_upto.get(lane, 0):
                needs.insert(0, before)
        if len(needs) > 2:
            return self._special(Special(tuple(needs)))
        return (TWO if len(needs) == 2 else PLAIN, *_two(needs))

    def _wide(self, item: int, lane: int, needs: list[int]) -> tuple[int, int, int]:
        units, heap = self.program.units[lane], self.heap[lane]
        joined = () if lane in self.fixed else units.joined.get(item, ())
        leaves = lane not in self.fixed and item in units.left
        if len(needs) > 2 or joined or leaves:
            return self._special(Special(tuple(needs), heap=heap, joined=joined, leaves=leaves))
        return (WIDE + heap, *_two(needs))

    def _wait(self, item: int) -> tuple[int, int, int]:
        waker, awaited, deadline = self.program.waits[item]
        if deadline >= 0 or (len(awaited) > 1 and not self.recorded_wakers):
            return self._special(Special(awaited=awaited, deadline=deadline, sync=True))
        if waker:
            self.known.add(waker)
            if self.verb[waker] == Verb.OP and self.lane[waker] in self.ordered:
                lane = self.lane[waker]
                self.known_upto[lane] = max(self.known_upto.get(lane, 0), waker)
        return SYNC, waker, 0

    def _special(self, special: Special) -> tuple[int, int, int]:
        self.specials.append(special)
        return SPECIAL, 0, 0

    def _implied(self, need: int, item: int) -> bool:
        """Whether `need` has ended anyway, at the latest when the item can start."""
        lane = self.lane[need]
        if need in self.known:
            return True
        if self.verb[need] != Verb.OP or lane not in self.ordered:
            return False
        return need <= self.known_upto.get(lane, 0) or (
            self.verb[item] == Verb.OP and lane == self.lane[item]
        )


def _two(needs: list[int]) -> tuple[int, int]:
    first, second = [*needs, 0, 0][:2]
    return first, second
