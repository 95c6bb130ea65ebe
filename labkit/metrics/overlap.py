"""Overlap: how long lanes were busy at the same time. A sweep over the starts and ends of their slices.

A lane counts as busy while any of its units is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from labkit.metrics.metric import Metric
from labkit.metrics.unit_slices import UnitSlices, slices_by_unit
from labkit.trace import KIND_OP, Trace

STAGES = ("workers", "h2d", "compute", "d2h")

_DEFINITION = f"time with two or more of {', '.join(STAGES)} busy ÷ time with any of them busy, in the window"


@dataclass(frozen=True)
class Overlap:
    """Who was busy with whom.

    busy_ns  lane → time that any of its units was busy
    both_ns  pair of lanes, in order of name → time that both were busy
    share    the overlapped share of the busy time
    """

    busy_ns: dict[str, int]
    both_ns: dict[tuple[str, str], int]
    share: Metric

    def occupied(self, start_ns: int, end_ns: int) -> dict[str, float]:
        """Lane → share of the time between two instants that any of its units was busy."""
        return {lane: busy / (end_ns - start_ns) for lane, busy in self.busy_ns.items()} if end_ns > start_ns else {}


def overlap(trace: Trace, start_ns: int, end_ns: int, units: Iterable[UnitSlices] | None = None) -> Overlap:
    """The overlap of the lanes' ops between two instants."""
    rows: dict[str, list[np.ndarray]] = {}
    for unit in slices_by_unit(trace) if units is None else units:
        ops = unit.rows[trace["kind"][unit.rows] == KIND_OP]
        rows.setdefault(unit.span.lane, []).append(ops)
    lanes = sorted(rows)
    slices = [_clipped(trace, np.concatenate(rows[lane]), start_ns, end_ns) for lane in lanes]
    edges = np.unique(np.concatenate([side for each in slices for side in each] or [np.empty(0, np.int64)]))
    busy = [_busy(edges, *each) for each in slices]
    lengths = np.diff(edges)
    pairs = combinations(range(len(lanes)), 2)
    both = {(lanes[i], lanes[j]): int(lengths[busy[i] & busy[j]].sum()) for i, j in pairs}
    stages = [mask for lane, mask in zip(lanes, busy, strict=True) if role_of(lane) in STAGES]
    alone = {lane: int(lengths[mask].sum()) for lane, mask in zip(lanes, busy, strict=True)}
    return Overlap(alone, both, _share(stages, lengths))


def role_of(lane: str) -> str:
    """The role in a lane's name: `compute` of `compute1`."""
    return lane.rstrip("0123456789")


def _clipped(trace: Trace, rows: np.ndarray, start_ns: int, end_ns: int) -> tuple[np.ndarray, np.ndarray]:
    start = np.clip(trace["start_ns"][rows], start_ns, end_ns)
    end = np.clip(trace["end_ns"][rows], start_ns, end_ns)
    return start[end > start], end[end > start]


def _busy(edges: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Between which neighbouring edges a lane is busy."""
    change = np.bincount(np.searchsorted(edges, start), minlength=len(edges))
    change -= np.bincount(np.searchsorted(edges, end), minlength=len(edges))
    return np.cumsum(change)[:-1] > 0


def _share(stages: list[np.ndarray], lengths: np.ndarray) -> Metric:
    count = np.sum(stages, axis=0) if stages else np.zeros(len(lengths), np.int64)
    any_ns, two_ns = int(lengths[count > 0].sum()), int(lengths[count > 1].sum())
    if any_ns == 0:
        reason = f"none of {', '.join(STAGES)} was busy in the window"
        return Metric("overlapped share", None, "share", 0, _DEFINITION, "higher", reason)
    return Metric("overlapped share", two_ns / any_ns, "share", len(stages), _DEFINITION, "higher")
