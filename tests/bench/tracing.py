"""What recording costs for each op: the cpu device as it is, against the same device whose rows are never made.

The ops are empty and run on the host's own lane, so that a loop over them is all overhead. Counted are the row (a tuple of
sixteen values and the ids of the dependencies), its appending, the folding of old rows once the trace is full, and the four
readings of the clock that an op's times come from. Not counted is making columns of the rows, which is done once,
after the run; it is shown.
"""

from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

from labkit.device.cpu import CpuDevice
from labkit.schedule import HOST, Op
from labkit.trace import Recorder
from tests.bench.measure import BenchError, Line, in_turns, median_interval, progress, ratio_of

NAME = "tracing"
TARGET_NS = 3_000
READINGS = 4
CAP = 20_000
"""Rows kept: few enough that most of a turn runs with a full trace, where old rows are folded."""


class Unrecorded(CpuDevice):
    """A cpu device that makes no rows."""

    def _record(self, *_: Any) -> None: ...

    def _record_wait(self, *_: Any) -> None: ...


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, count = (3, 5_000) if quick else (15, 60_000)
    contenders = {
        "recorded": lambda: _ns_per_op(CpuDevice, count, rows=count),
        "unrecorded": lambda: _ns_per_op(Unrecorded, count, rows=0),
        "recorded again": lambda: _ns_per_op(CpuDevice, count, rows=count),
        "clock": lambda: _clock_ns(count),
        "columns": lambda: _columns_ns(count),
    }
    numbers = in_turns(contenders, rounds, progress)
    with_rows, without = numbers["recorded"], numbers["unrecorded"]
    costs = [a - b + READINGS * clock for a, b, clock in zip(with_rows, without, numbers["clock"], strict=True)]
    cost, (low, high) = median(costs), median_interval(costs)
    ratio = ratio_of(with_rows, without)
    print(f"  recording: {cost:.0f} ns an op ({low:.0f} to {high:.0f}), of which the clock {READINGS * median(numbers['clock']):.0f}; target ≤ {TARGET_NS}")
    print(f"  an empty op takes {median(with_rows):.0f} ns with its row, {median(without):.0f} without; columns afterwards {median(numbers['columns']):.0f} ns an op")
    return Line(
        name=NAME,
        ours=median(with_rows),
        peer=median(without),
        unit="ns/op",
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        aa_ratio=ratio_of(with_rows, numbers["recorded again"]).value,
        rounds=rounds,
        passed=cost <= TARGET_NS,
        bound=f"recording costs at most {TARGET_NS} ns an op: ours - peer + {READINGS} clock readings",
        details={
            "recording_ns": cost,
            "recording_low_ns": low,
            "recording_high_ns": high,
            "clock_ns": median(numbers["clock"]),
            "columns_ns": median(numbers["columns"]),
        },
    )


def _ns_per_op(make: type[CpuDevice], count: int, rows: int) -> float:
    """Submit `count` empty ops, each after the one before; checked is that rows were made, or not, as was meant."""
    device = make(recorder=Recorder(CAP))
    op = Op("nothing", HOST, _nothing)
    handle = device.submit(op)
    began = perf_counter_ns()
    for _ in range(count):
        handle = device.submit(op, handle)
    took = perf_counter_ns() - began
    device.close()
    made = device.recorder.dropped + len(device.recorder.rows)
    if made != (rows + 1 if rows else 0):
        raise BenchError(f"{made} rows were made, expected {rows}: the benchmark no longer fits the device")
    return took / count


def _clock_ns(count: int) -> float:
    began = perf_counter_ns()
    for _ in range(count):
        perf_counter_ns()
    return (perf_counter_ns() - began) / count


def _columns_ns(count: int) -> float:
    device = CpuDevice(recorder=Recorder())
    op = Op("nothing", HOST, _nothing)
    for _ in range(count):
        device.submit(op)
    device.close()
    began = perf_counter()
    device.recorder.finish(device.now())
    return 1e9 * (perf_counter() - began) / count


def _nothing(_: Any = None) -> None: ...
