"""Rows and traces for the tests of this folder, made with the recorder or on the virtual clock."""

from collections.abc import Callable
from typing import Any

import pytest

from labkit.device.machine import Machine
from labkit.device.simulated import SimulatedDevice
from labkit.schedule import Cost, Lane, Op
from labkit.trace import Recorder, Trace
from labkit.trace.recorder import Row


def row(op: int, lane: str = "workers", start: int = 0, end: int = 10, **more: Any) -> Row:
    """A row with everything at its plainest unless given."""
    plain = Row(op, 0, "op", lane, 0, 0, 0, start, start, start, end, 0, 0, -1, 1, ())
    return plain._replace(**more)


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    return row


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Trace]:
    """A trace of these rows; a unit exists from 0 to 1000 for each lane unit that a row names, and for the host."""

    def trace_of(*rows: Row, cap: int = 1_000_000) -> Trace:
        recorder = Recorder(cap)
        for unit in dict.fromkeys([("host", 0), *((one.lane, one.unit) for one in rows)]):
            recorder.open_unit(*unit, 0)
        for one in rows:
            recorder.append(one)
        return recorder.finish(1000)

    return trace_of


@pytest.fixture
def simulated_trace() -> Trace:
    """Six steps of load (two workers), copy and compute; the last load fails, one lane grows and shrinks, a knob turns."""
    device = SimulatedDevice(Machine("test", "Test", "cpu", {}), widths={"workers": 2})
    done = []
    for step in range(6):
        error = ValueError("torn") if step == 5 else None
        load = device.submit(Op("load", Lane("workers"), len, Cost(fixed_ns=700), step, simulated_value=error))
        images = device.submit(Op("prepare", Lane("compute"), len, Cost(fixed_ns=30), step), load)
        done.append(device.submit(Op("train", Lane("compute"), len, Cost(fixed_ns=300), step, items=4), images, after=(load,)))
        if step == 2:
            device.resize("workers", 3)
            device.recorder.mark(device.now(), step, "workers", 2, 3)
        if step == 3:
            device.resize("workers", 1)
        if step == 4:
            device.submit(Op("log", Lane("host"), len, Cost(fixed_ns=50), step), done[-1])
        if len(done) > 2:
            device.wait([done.pop(0)])
    device.close()
    return device.recorder.finish(device.now())
