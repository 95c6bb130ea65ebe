"""Replay: run the host's program of a recorded run again, with other durations or widths.

    start = max(host time, unit free, ends of dependencies)        end = start + duration

Where the simulated device runs a kernel anew, replay keeps the recorded order of verbs, so it answers "what
if decoding took half as long" for the program as it was, and cannot know that the program would have taken
another branch.

Stated approximations: a wait over several ops ends, once anything is changed, with the first of them; a wait
that ended by its deadline keeps that instant; what an op cost because cores or links were shared stays in its
duration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace

import numpy as np

from labkit.errors import TraceError
from labkit.metrics.overlap import role_of
from labkit.metrics.program import Program, Verb, compile_replay
from labkit.metrics.replay_shape import PLAIN, SPECIAL, SYNC, TWO, WIDE, Shape, Special, shape_of
from labkit.metrics.unit_slices import HOST

__all__ = ["Program", "Replayed", "compile_replay", "replay"]


@dataclass(frozen=True, eq=False)
class Replayed:
    """When everything ran in the replay.

    makespan_ns       from the first submit to the last end, as `Trace.makespan_ns`
    start_ns, end_ns  int64, by row of the trace; −1 for rows that did not run
    """

    makespan_ns: int
    start_ns: np.ndarray
    end_ns: np.ndarray


MOST_TIMES, WIDEST = 1000.0, 4096
"""Bounds of a factor on durations and of a lane's width: beyond them whole nanoseconds, and the memory for the units, would overflow."""


def replay(
    program: Program,
    *,
    scale: Mapping[str, float] | None = None,
    widths: Mapping[str, int] | None = None,
    lags: bool = False,
    host: float = 1.0,
) -> Replayed:
    """Run a compiled program again.

    scale   op name, lane or role → factor on the durations there; an op's name goes before its lane's
    widths  lane or role → units that it has throughout
    lags    add the recorded lags: from ready to running, and from an op's end to the host running again
    host    factor on the time of the host's own program, launches included
    Raises TraceError for a name that is not in the trace, a factor or a width out of range.
    """
    scale, widths = dict(scale or {}), dict(widths or {})
    if not 0 <= host <= MOST_TIMES:
        raise TraceError(f"host={host} is not allowed: 0 to {MOST_TIMES:g}")
    if host != 1:
        program = replace(program, advance=[round(ns * host) for ns in program.advance])
    shape = _shape(program, widths, recorded_wakers=not scale and host == 1)
    duration = _scaled(program, scale) if scale else program.duration
    work = duration + program.lag if lags else duration
    ends = np.fromiter(_run(program, shape, work.tolist()), np.int64, len(program) + 1)
    return _replayed(program, ends, duration)


def _run(program: Program, shape: Shape, work: list[int]) -> list[int]:
    """The end of every item, from 1. The loop is long because it is where all the time goes."""
    ends = [0]
    append = ends.append
    host = program.clock_ns
    heaps = [[0] * width for width in shape.widths]
    specials = iter(shape.specials)
    for code, advance, first, second, cost in zip(
        shape.codes, program.advance, shape.first, shape.second, work, strict=True
    ):
        host += advance
        ready = ends[first]
        if ready < host:
            ready = host
        if code == PLAIN:
            append(ready + cost)
        elif code == SYNC:
            host = ready + cost
            append(host)
        elif code == SPECIAL:
            special = next(specials)
            end = _special(special, host, cost, ends, heaps)
            append(end)
            if special.sync:
                host = end
        else:
            other = ends[second]
            if ready < other:
                ready = other
            if code == TWO:
                append(ready + cost)
            else:
                heap = heaps[code - WIDE]
                if ready < heap[0]:
                    ready = heap[0]
                ready += cost
                heapreplace(heap, ready)
                append(ready)
    return ends


def _special(item: Special, host: int, cost: int, ends: list[int], heaps: list[list[int]]) -> int:
    """The end of an item that the loop's short paths do not cover."""
    ready = max([host, *[ends[need] for need in item.needs]])
    if item.awaited or item.deadline >= 0:
        awaited = min([ends[need] for need in item.awaited], default=item.deadline)
        ready = max(ready, awaited if item.deadline < 0 else min(awaited, item.deadline))
    if item.heap < 0:
        return ready + cost
    heap = heaps[item.heap]
    for last in item.joined:
        heappush(heap, ends[last])
    end = max(ready, heap[0]) + cost
    if item.leaves:
        heappop(heap)
    else:
        heapreplace(heap, end)
    return end


def _shape(program: Program, widths: Mapping[str, int], recorded_wakers: bool) -> Shape:
    """The shape, prepared once for each choice of widths."""
    codes = _lane_widths(program, widths)
    key = (tuple(sorted(codes.items())), recorded_wakers and not codes)
    if key not in program.shapes:
        program.shapes[key] = shape_of(program, codes, key[1])
    return program.shapes[key]


def _lane_widths(program: Program, widths: Mapping[str, int]) -> dict[int, int]:
    codes: dict[int, int] = {}
    for name, width in widths.items():
        lanes = [
            code for code in program.units if name in (program.lanes[code], role_of(program.lanes[code]))
        ]
        if not lanes or name == HOST:
            known = ", ".join(program.lanes[code] for code in program.units)
            raise TraceError(f"there is no lane '{name}' whose width could change; there are: {known}")
        if not 1 <= width <= WIDEST:
            raise TraceError(f"width {width} of lane '{name}' is not allowed: 1 to {WIDEST}")
        codes |= dict.fromkeys(lanes, width)
    return codes


def _scaled(program: Program, scale: Mapping[str, float]) -> np.ndarray:
    """The durations times their factors, in whole ns."""
    by_lane, by_name = np.ones(len(program.lanes)), np.full(len(program.names), np.nan)
    for key, factor in scale.items():
        lanes = [code for code, lane in enumerate(program.lanes) if key in (lane, role_of(lane))]
        names = [code for code, name in enumerate(program.names) if key == name]
        if not lanes and not names:
            known = ", ".join(dict.fromkeys((*program.names, *program.lanes)))
            raise TraceError(f"scale names '{key}', which is no op or lane of this trace; there are: {known}")
        if not 0 <= factor <= MOST_TIMES:
            raise TraceError(f"scale {factor} of '{key}' is not allowed: 0 to {MOST_TIMES:g}")
        (by_name if names else by_lane)[names or lanes] = factor
    factors = np.where(np.isnan(by_name[program.name_of]), by_lane[program.lane_of], by_name[program.name_of])
    return np.rint(program.duration * factors).astype(np.int64)


def _replayed(program: Program, ends: np.ndarray, duration: np.ndarray) -> Replayed:
    """The times by row of the trace. `ends` counts items from 1."""
    ends[0] = program.clock_ns
    verbs = np.asarray(program.verbs, np.int64)
    end = ends[1:]
    start = end - duration
    waits, ran = np.flatnonzero(verbs == Verb.WAIT), verbs != Verb.NOT_RUN
    start[waits] = _entered(program, verbs, ends, waits)
    by_row = np.full((2, program.row_count), -1, np.int64)
    by_row[:, program.rows[ran]] = start[ran], end[ran]
    makespan = int(end[ran].max() - program.clock_ns) if ran.any() else 0
    return Replayed(makespan, by_row[0], by_row[1])


def _entered(program: Program, verbs: np.ndarray, ends: np.ndarray, waits: np.ndarray) -> np.ndarray:
    """When the host entered each wait: 1 ns less than its own time since the last verb that held it."""
    advanced = np.cumsum(program.advance)
    holds = np.where((verbs == Verb.WAIT) | (verbs == Verb.INLINE), np.arange(1, len(verbs) + 1), 0)
    held = np.concatenate([[0], np.maximum.accumulate(holds)])[:-1] if len(verbs) else holds
    since = np.where(held > 0, advanced[held - 1], 0)
    return (ends[held] + advanced - since - 1)[waits]
