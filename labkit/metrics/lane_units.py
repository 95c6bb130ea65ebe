"""When the units of a lane came and went, in the host's program order: an op takes a unit that is there.

Times will differ in a replay, so a resize is known by its place: a unit joins before the first op that could
have run on it, and leaves after the last that did.
"""

from dataclasses import dataclass

import numpy as np

from labkit.metrics.unit_slices import UnitSlices
from labkit.trace import Trace


@dataclass(frozen=True)
class LaneUnits:
    """The units of one lane. Items count from 1.

    initial  units at the lane's first op
    joined   item → for each unit that joins before it, the last item that ran on that unit when it was here
             before (0: none)
    left     items that are the last on their unit, which leaves with them
    """

    initial: int
    joined: dict[int, tuple[int, ...]]
    left: frozenset[int]

    @property
    def ordered(self) -> bool:
        """One unit throughout: its ops run strictly one after another."""
        return self.initial == 1 and not self.joined and not self.left


def units_of_lane(
    trace: Trace, units: list[UnitSlices], rows: np.ndarray, item_of_row: np.ndarray
) -> LaneUnits:
    """The units of the lane whose ops are `rows`, in the order of the items."""
    last_start = int(trace["start_ns"][rows].max())
    initial, joined, left, last_on = 0, {}, set(), {}
    for unit in sorted(units, key=lambda unit: unit.span.open_ns):
        own = (np.sort(item_of_row[unit.rows]) + 1).tolist()
        leaves = unit.span.close_ns <= last_start
        if leaves and not own:
            continue  # it came and went unused
        if unit.span.open_ns <= trace["queued_ns"][rows[0]]:
            initial += 1
        else:
            later = rows[trace["submit_ns"][rows] >= unit.span.open_ns]
            first = min([*own[:1], *(item_of_row[later[:1]] + 1).tolist()], default=0)
            if not first:
                continue  # it came after the last op
            joined[first] = (*joined.get(first, ()), last_on.get(unit.span.unit, 0))
        if leaves:
            left.add(own[-1])
        last_on[unit.span.unit] = own[-1] if own else 0
    return LaneUnits(initial, joined, frozenset(left))
