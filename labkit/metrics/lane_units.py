"""When the units of a lane came and went, in the host's program order. Replay needs it: an op takes a unit that is free.

Times will differ in a replay, so a resize is known by its place: a unit joins before the first op that could have run on it, and
leaves after the last that did.
"""

from dataclasses import dataclass

import numpy as np

from labkit.metrics.unit_slices import UnitSlices
from labkit.trace import Trace


@dataclass(frozen=True)
class LaneUnits:
    """The units of one lane.

    initial  units at the lane's first op
    joined   item → units that join before it
    left     items that are the last on their unit, which leaves with them
    """

    initial: int
    joined: dict[int, int]
    left: frozenset[int]

    @property
    def resized(self) -> bool:
        """Whether the width changed during the run."""
        return bool(self.joined or self.left)


def units_of_lane(trace: Trace, units: list[UnitSlices], items: np.ndarray, item_of_row: np.ndarray) -> LaneUnits:
    """The units of the lane whose ops are `items` (row numbers, in the host's program order)."""
    first, last_start = items[0], int(trace["start_ns"][items].max())
    initial, joined, left = 0, {}, set()
    for unit in units:
        own = np.sort(item_of_row[unit.rows])
        leaves = unit.span.close_ns <= last_start
        if leaves and not len(own):
            continue  # it came and went unused
        if unit.span.open_ns <= trace["queued_ns"][first]:
            initial += 1
        else:
            later = items[trace["submit_ns"][items] >= unit.span.open_ns]
            candidates = [*own[:1].tolist(), *item_of_row[later[:1]].tolist()]
            if not candidates:
                continue  # it came after the last op
            joined[min(candidates)] = joined.get(min(candidates), 0) + 1
        if leaves:
            left.add(int(own[-1]))
    return LaneUnits(initial, joined, frozenset(left))
