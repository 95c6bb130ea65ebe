"""The trace: columns, not objects. Everything that labkit says about a run is computed from one of these.

A row is an op that ran on a lane, or a slice of the host's own time (a wait, or a late launch). Rows are in the host's
program order: the id of a row is the place of its verb in the kernel. Dependencies are ids; an id that is no
longer in the trace (dropped, or never traced) counts as done.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from labkit.errors import TraceError

KIND_OP, KIND_WAIT, KIND_LAUNCH = 0, 1, 2
HOST = "host"

INT_COLUMNS = ("op", "kind", "unit", "step", "items", "submit_ns", "queued_ns", "start_ns", "end_ns")
INT_COLUMNS += ("flop", "bytes", "woke_by", "status", "rank")

REQUEST_COLUMNS = ("request", "tenant", "due_ns", "admitted_ns", "first_ns", "done_ns", "answer", "step", "length", "slo_ns")
REQUEST_COLUMNS += ("first_token_ns", "tokens")


def no_requests() -> dict[str, np.ndarray]:
    """The requests of a run that serves none: empty columns."""
    return {name: np.empty(0, np.int64) for name in REQUEST_COLUMNS}



@dataclass(frozen=True, slots=True)
class Mark:
    """A knob that was turned during the run."""

    time_ns: int
    step: int
    knob: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class UnitSpan:
    """One unit of a lane (a thread, a stream) existed from `open_ns` to `close_ns`."""

    lane: str
    unit: int
    open_ns: int
    close_ns: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened in one run, as columns of equal length n, sorted by `op`.

    op           int64  place in the host's program order
    kind         int64  KIND_OP, KIND_WAIT (the host waited) or KIND_LAUNCH (the host enqueued an op late)
    name, lane   int32 codes into `names` and `lanes`
    unit         int64  which unit of the lane
    step, items  int64  the step it belongs to (-1: none); items complete at its end
    submit_ns    int64  the host entered `submit`
    queued_ns    int64  the host left `submit`
    start_ns, end_ns  int64  it ran (a wait: the host waited)
    flop, bytes  int64  what it asked of the hardware
    woke_by      int64  for a wait, the id of the op that ended it (-1: the deadline)
    status       int64  `labkit.schedule.Status`
    rank         int64  process rank, 0 in a single process
    dep_ids, dep_offsets  int64  row i depends on (a wait: awaited) dep_ids[dep_offsets[i]:dep_offsets[i+1]]
    dropped      rows that were recorded and not kept, because the trace reached its cap
    dropped_busy_ns  busy time of the dropped rows by lane
    meta         device label, whether measured or simulated, …
    requests     of a run that serves: int64 columns of equal length, one row for each request that got its answer, in the order of
                 the answers. request: its number; due_ns: when it was meant to come; admitted_ns: when the host took it in;
                 first_ns: when the batch with it was sent to the device (-1: never); done_ns: when it got its answer;
                 answer: `labkit.schedule.Answer`; step: its batch (-1: none); length: what it asks for, in the workload's unit;
                 slo_ns: the latency that was promised when it came (0: none); first_token_ns: when its first token was there (-1: none was
                 made); tokens: how many it was given (0: its answer is none of tokens)
    requests_dropped  answer → requests that were recorded and not kept
    """

    columns: dict[str, np.ndarray]
    names: tuple[str, ...]
    lanes: tuple[str, ...]
    dep_ids: np.ndarray
    dep_offsets: np.ndarray
    units: tuple[UnitSpan, ...] = ()
    marks: tuple[Mark, ...] = ()
    dropped: int = 0
    dropped_busy_ns: dict[str, int] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    requests: dict[str, np.ndarray] = field(default_factory=no_requests)
    requests_dropped: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1 or len(self.dep_offsets) != len(self) + 1:
            raise TraceError(f"the trace's columns differ in length: {lengths}, offsets {len(self.dep_offsets)}")
        served = {name: len(column) for name, column in self.requests.items()}
        if served.keys() != set(REQUEST_COLUMNS) or len(set(served.values())) > 1:
            raise TraceError(f"the trace's requests must have the columns {', '.join(REQUEST_COLUMNS)}, of one length: {served}")

    def __len__(self) -> int:
        return len(self.columns["op"])

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    def deps(self, row: int) -> np.ndarray:
        """The ids that a row depends on (or, for a wait, awaited)."""
        return self.dep_ids[self.dep_offsets[row] : self.dep_offsets[row + 1]]

    def rows_on(self, lane: str) -> np.ndarray:
        """The indices of the ops that ran on a lane, in program order; waits and launches for the host."""
        if lane not in self.lanes:
            return np.empty(0, np.int64)
        return np.flatnonzero((self["lane"] == self.lanes.index(lane)) & (self["start_ns"] >= 0))

    def name_of(self, row: int) -> str:
        """The name of a row's op."""
        return self.names[self["name"][row]]

    def lane_of(self, row: int) -> str:
        """The lane of a row."""
        return self.lanes[self["lane"][row]]

    @property
    def start_ns(self) -> int:
        """When the run opened: the earliest instant of the trace."""
        return min((span.open_ns for span in self.units), default=0)

    @property
    def end_ns(self) -> int:
        """When the run closed: the latest instant of the trace."""
        return max((span.close_ns for span in self.units), default=0)

    @property
    def makespan_ns(self) -> int:
        """From the first submit to the last end of an op."""
        ran = self["end_ns"] >= 0
        return int(self["end_ns"][ran].max() - self["submit_ns"].min()) if ran.any() else 0

    def frame(self) -> Any:
        """The rows as a pandas DataFrame, names spelled out, dependencies as tuples of ids."""
        import pandas as pd

        frame = pd.DataFrame({name: self.columns[name] for name in INT_COLUMNS})
        frame.insert(1, "name", [self.names[code] for code in self["name"]])
        frame.insert(2, "lane", [self.lanes[code] for code in self["lane"]])
        frame["deps"] = [tuple(self.deps(row).tolist()) for row in range(len(self))]
        return frame


class RowIndex:
    """Where the row of an op id is; ids are sorted, so this is a binary search, or plain when nothing is missing."""

    def __init__(self, trace: Trace):
        self._ids = trace["op"]

    @cached_property
    def _dense(self) -> bool:
        ids = self._ids
        return len(ids) > 0 and int(ids[-1] - ids[0]) == len(ids) - 1

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Row numbers of ids, -1 for those that are not in the trace."""
        if len(self._ids) == 0:
            return np.full(len(ids), -1)
        if self._dense:
            rows = ids - self._ids[0]
            return np.where((rows >= 0) & (rows < len(self._ids)), rows, -1)
        rows = np.searchsorted(self._ids, ids)
        rows = np.minimum(rows, len(self._ids) - 1)
        return np.where(self._ids[rows] == ids, rows, -1)
