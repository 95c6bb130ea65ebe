"""What if: a measured run replayed with some of it faster, wider or gone, and what its throughput would then be.

`virtual_speedups` asks it of every stage: how much faster would the whole be if this stage took a share less time? (The question, and the
name, from Curtsinger and Berger, "Coz: Finding Code that Counts with Causal Profiling", SOSP 2015; there it is asked of a running program
by slowing all others, here of a trace by replaying it.)

Everything is compared with a replay of the run as it was, lags included, so what the model gets wrong of the run itself cancels;
`Replays.error` says how much that is. The host's program is kept as it was, and the units of a wider lane are taken to have a core each: a
knob that changes the program (prefetch, placement), or workers that share cores, are for the simulated device, which runs the kernel anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from labkit.errors import TraceError
from labkit.metrics.overlap import role_of
from labkit.metrics.replay import Program, Replayed, compile_replay, replay
from labkit.metrics.unit_slices import HOST
from labkit.metrics.window import steady_window
from labkit.trace import KIND_OP, Trace
from labkit.units import NS_PER_S

PER_RUN = "runs/s"
OPEN_LOOP = (
    "requests come when they come (open loop): a replay would keep the batches as they were, and a faster stage makes other batches; "
    "turn a knob instead, which simulates the server anew (labkit whatif RUN --knob rate=…)"
)
SPEEDUPS = (0.1, 0.25, 0.5, 1.0)
"""Shares of its time that a stage is made faster by; 1: it takes no time at all."""


@dataclass(frozen=True)
class Change:
    """What is different.

    scale   op name, lane or role → factor on its durations; 0.5 is twice as fast, 0 is gone
    widths  lane or role → units
    host    factor on the time of the host's own program, launches included
    """

    scale: Mapping[str, float] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)
    host: float = 1.0

    @property
    def words(self) -> str:
        """`decode in 0.5 of its time, workers 4 wide, no launch cost`."""
        parts = [f"{name} {_in_time(factor)}" for name, factor in self.scale.items()]
        parts += [f"{lane} {width} wide" for lane, width in self.widths.items()]
        if self.host != 1:
            parts.append("no host time between ops" if self.host == 0 else f"the host's own program {_in_time(self.host)}")
        return ", ".join(parts) or "as it was"


@dataclass(frozen=True)
class WhatIf:
    """What a change would do, by replay: a prediction.

    items_per_s  throughput of the steps that the steady window counts (`Replays.unit`)
    ratio        that ÷ the throughput of the replay without the change
    busy         lane → busy share of the time between the first and the last of these steps
    """

    change: Change
    items_per_s: float
    ratio: float
    busy: Mapping[str, float] = field(default_factory=dict)

    @property
    def busiest(self) -> tuple[str, float] | None:
        """The lane that would be the busiest, the host apart, and its busy share; None where no other lane ran."""
        lanes = {lane: share for lane, share in self.busy.items() if lane != HOST}
        return max(lanes.items(), key=lambda pair: pair[1]) if lanes else None


@dataclass(frozen=True)
class Speedup:
    """How much faster the whole would be if one stage were.

    name    of an op, or of a lane
    gains   for each of `SPEEDUPS`: throughput ÷ that of the run as it was
    """

    name: str
    sort: str
    gains: tuple[float, ...]


class Replays:
    """One run, ready to be asked. Where its steady window has fewer than two steps, the whole run counts as one item.

    unit  of the rates: "items/s", or `PER_RUN` where the whole run is the item
    Raises TraceError for a malformed trace, for one in which nothing ran, and for one of a server.
    """

    def __init__(self, trace: Trace, warmup_steps: int = 0):
        window = steady_window(trace, warmup_steps)
        if not (trace["end_ns"] >= 0).any():
            raise TraceError("nothing ran in this trace: there is nothing to replay")
        if len(trace.requests["request"]):
            raise TraceError(OPEN_LOOP)
        self._trace, self._rows = trace, window.rows
        self.unit = "items/s" if len(window.rows) > 1 else PER_RUN
        self._program: Program = compile_replay(trace)
        self.measured_items_per_s = self._rate(trace["end_ns"])
        self.baseline_items_per_s = self._rate(self._replayed(Change()).end_ns)
        """Of the run replayed as it was."""

    @property
    def error(self) -> float:
        """Replay of the run as it was ÷ the run, − 1."""
        return self.baseline_items_per_s / self.measured_items_per_s - 1

    def ask(self, change: Change) -> WhatIf:
        """What a change would do. Raises TraceError for a name that is not in the trace, a negative factor, a width below 1."""
        replayed = self._replayed(change)
        rate = self._rate(replayed.end_ns)
        return WhatIf(change, rate, rate / self.baseline_items_per_s, self._busy(replayed, change))

    def widths(self) -> dict[str, int]:
        """Lane → units that it has in the run, the host apart."""
        lanes: dict[str, int] = {}
        for span in self._trace.units:
            if span.lane != HOST:
                lanes[span.lane] = max(lanes.get(span.lane, 0), span.unit + 1)
        return lanes

    def stages(self) -> list[tuple[str, str]]:
        """Every op and every lane that has more than one op, as (name, "op" or "lane")."""
        trace = self._trace
        ran = (trace["start_ns"] >= 0) & (trace["kind"] == 0)
        pairs = {(trace.lanes[lane], trace.names[name]) for lane, name in np.unique(np.stack([trace["lane"][ran], trace["name"][ran]], 1), axis=0)}
        lanes = sorted({lane for lane, _ in pairs})
        several = [lane for lane in lanes if sum(one == lane for one, _ in pairs) > 1]
        ops = sorted({name for _, name in pairs if name not in lanes})
        return [(name, "op") for name in ops] + [(lane, "lane") for lane in several]

    def virtual_speedups(self, shares: Sequence[float] = SPEEDUPS) -> tuple[Speedup, ...]:
        """For every stage: what the whole would gain if it took these shares less time. The most promising first."""
        found = [
            Speedup(name, sort, tuple(self._gain(Change({name: 1 - share})) for share in shares)) for name, sort in self.stages()
        ]
        host = Speedup("host program", HOST, tuple(self._gain(Change(host=1 - share)) for share in shares))
        return tuple(sorted([*found, host], key=lambda each: (-each.gains[-1], each.name)))

    def _gain(self, change: Change) -> float:
        return self._rate(self._replayed(change).end_ns) / self.baseline_items_per_s

    def _replayed(self, change: Change) -> Replayed:
        return replay(self._program, scale=change.scale, widths=change.widths, lags=True, host=change.host)

    def _busy(self, replayed: Replayed, change: Change) -> dict[str, float]:
        """The busy share of each lane from the first counted completion to the last, or over the whole run."""
        trace, start, end = self._trace, replayed.start_ns, replayed.end_ns
        ran = (start >= 0) & (trace["kind"] == KIND_OP)
        if not ran.any():
            return {}
        counted = end[self._rows] if len(self._rows) > 1 else np.array([start[ran].min(), end[ran].max()])
        first, last = int(counted.min()), int(counted.max())
        inside = np.clip(np.minimum(end, last) - np.maximum(start, first), 0, None)
        widths = self.widths()
        widths |= {lane: width for lane in widths for name, width in change.widths.items() if name in (lane, role_of(lane))}
        busy = {lane: int(inside[ran & (trace["lane"] == code)].sum()) for code, lane in enumerate(trace.lanes)}
        return {lane: ns / (max(last - first, 1) * widths.get(lane, 1)) for lane, ns in busy.items() if ns}

    def _rate(self, end_ns: np.ndarray) -> float:
        """Items per second from the first counted completion to the last; 1 ÷ makespan where there are no two."""
        if len(self._rows) < 2:
            return NS_PER_S / max(int(end_ns.max()) - int(self._trace["submit_ns"].min()), 1)
        ends = end_ns[self._rows]
        order = np.argsort(ends, kind="stable")
        items = int(self._trace["items"][self._rows[order][1:]].sum())
        return items * NS_PER_S / max(int(ends[order[-1]] - ends[order[0]]), 1)


def _in_time(factor: float) -> str:
    return "gone" if factor == 0 else f"in {factor:g} of its time"
