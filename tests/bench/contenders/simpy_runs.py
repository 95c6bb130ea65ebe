"""SimPy's turns. `speed`: "go N" simulates the `pipeline` kernel's schedule of N steps and gives ops per second.
`equality`: "go N" compares N random schedules with labkit's simulated device, event for event."""

import sys
from functools import cache
from time import perf_counter
from typing import Any

from labkit.metrics.replay import compile_replay, replay
from tests.bench.contender import serve
from tests.bench.contenders.simpy_model import Model
from tests.bench.light import light_run
from tests.bench.schedules import Schedule, events_of, random_schedule, simulate, written_down
from tests.bench.simulator import DISPATCH_NS, WAKE_NS, WIDTHS


@cache
def kernel_schedule(steps: int) -> Schedule:
    """What the kernel does, written down."""
    return written_down(lambda device: light_run(device, steps), WIDTHS, WAKE_NS, DISPATCH_NS)[0]


def speed(steps: int) -> dict[str, Any]:
    """Ops per second, building the model included; the last end, so that both can be seen to do the same."""
    schedule = kernel_schedule(steps)
    began = perf_counter()
    model = Model(schedule).run()
    took = perf_counter() - began
    return {"ops_per_s": schedule.op_count / took, "end_ns": max(event.end_ns for event in model.events)}


def equality(count: int) -> dict[str, Any]:
    """How many of `count` random schedules came out the same, and what the first difference was."""
    equal = events = 0
    first = None
    for seed in range(count):
        difference, compared = _difference(random_schedule(seed))
        events += compared
        equal += difference is None
        if difference is not None and first is None:
            first = f"schedule {seed}: {difference}"
    return {"equal": equal, "events": events, "first_difference": first}


def _difference(schedule: Schedule) -> tuple[str | None, int]:
    trace, found = simulate(schedule)
    ours = events_of(trace)
    model = Model(schedule).run()
    if found != model.found:
        return f"waits found {found}, SimPy's {model.found}", len(ours)
    for place, (mine, theirs) in enumerate(zip(ours, model.events, strict=True)):
        if mine != theirs:
            return f"event {place} is {mine}, SimPy's {theirs}", len(ours)
    replayed = replay(compile_replay(trace), lags=True)
    for place, (mine, again) in enumerate(zip(ours, replayed.end_ns.tolist(), strict=True)):
        if mine.end_ns != again:
            return f"replay ends event {place} at {again} ns, recorded {mine.end_ns}", len(ours)
    return None, len(ours)


if __name__ == "__main__":
    serve({"speed": speed, "equality": equality}[sys.argv[1]])
