"""What is in flight stays bounded whatever the knobs do, memory too, and a slot's buffers are never taken away too early."""

import gc
import random
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.kernels.pipeline import pipeline
from labkit.schedule import Handle, Op, Status, Step
from labkit.trace import Trace

US = 1000
TOGGLES = [8] * 20 + [0] * 6 + [3] * 10 + [1] * 6 + [0, 8, 0, 8, 8, 8, 2, 64, 64, 64, 0]


class Bounds:
    """Checks a watched run after every submit: at most one load more than the depth of the step before, at most two steps."""

    def __init__(self, lab, device, prefetch: list[int]):
        self.allowed = [1, *(depth + 1 for depth in prefetch)]
        self.watched = lab.Watched(device, self.look)
        self.most_loads = self.most_steps = self.step = 0
        self.before_load: list[tuple[int, int]] = []

    def look(self, op: Op) -> None:
        loads, steps = self.watched.in_flight("load"), self.watched.in_flight("update")
        if op.name == "load":
            self.step = op.step
            self.before_load.append((loads - 1, steps))
        assert loads <= self.allowed[self.step], f"{loads} loads in flight in step {self.step}"
        assert steps <= 2
        self.most_loads, self.most_steps = max(self.most_loads, loads), max(self.most_steps, steps)


def run_bounded(lab, device, workload, prefetch: list[int], **knobs) -> Bounds:
    bounds = Bounds(lab, device, prefetch)
    pipeline(bounds.watched, workload, lab.steps_of(prefetch, **knobs))
    assert device.close() == []
    return bounds


# ---- on the virtual clock --------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [10 * US, 300 * US, 5000 * US])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_prefetch_eight_to_zero_drains_to_nothing_in_flight(lab, load: int, workers: int):
    workload = lab.Training(load=load, forward=100 * US, backward=100 * US, update=100 * US)
    bounds = run_bounded(lab, lab.open_simulated({"workers": workers}), workload, [8] * 20 + [0] * 6)
    assert bounds.before_load[21:] == [(0, 0)] * 5, "nothing is in flight when a synchronous step begins"
    assert bounds.most_loads <= 9


def test_when_loads_are_slow_exactly_prefetch_plus_one_are_in_flight(lab):
    for prefetch in (0, 1, 2, 8):
        device = lab.open_simulated({"workers": 16})
        bounds = run_bounded(lab, device, lab.Training(load=5000 * US), [prefetch] * 40)
        assert bounds.most_loads == prefetch + 1


def test_when_training_is_slow_exactly_two_steps_are_in_flight(lab):
    for prefetch, steps in ((0, 1), (1, 2), (8, 2)):
        bounds = run_bounded(lab, lab.open_simulated(), lab.Training(forward=5000 * US), [prefetch] * 40)
        assert bounds.most_steps == steps


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from(["own", "compute"]),
    st.sampled_from(["threads", "inline"]),
)
def test_any_toggles_on_any_machine_keep_the_bounds_and_train_every_step_once(
    lab, prefetch: list[int], times: list[int], workers: int, log_sync: bool, copy_stream: str, loader: str
):
    stages = dict(zip(("load", "copy", "forward", "backward"), (time * 50 * US for time in times), strict=True))
    device, workload = lab.open_simulated({"workers": workers}), lab.Training(**stages)
    run_bounded(lab, device, workload, prefetch, log_sync=log_sync, copy_stream=copy_stream, loader=loader, log_every=2)
    trace = device.recorder.finish(device.now())
    updates = trace["name"] == trace.names.index("update")
    assert trace["step"][updates].tolist() == list(range(len(prefetch)))
    assert workload.logged_steps == list(range(0, len(prefetch), 2))
    assert max(workload.slot_of_step.values()) + 1 <= max(prefetch) + 2
    check_slots(trace, workload.slot_of_step)


def test_as_many_slots_are_made_as_batches_are_held_and_one_spare(lab):
    for prefetch in (0, 1, 2, 8):
        workload = lab.Training()
        lab.run(workload, lab.steps_of([prefetch] * 40))
        assert len(set(workload.slot_of_step.values())) == prefetch + 2


def test_a_load_waits_for_the_copy_out_of_its_slot_and_a_copy_for_the_last_reader_of_its_slot(lab):
    workload = lab.Training()
    trace = lab.run(workload, lab.steps_of([3] * 12 + [0] * 4 + [1] * 8))
    ops = {(trace.name_of(row), int(trace["step"][row])): row for row in range(len(trace))}
    before: dict[int, int] = {}
    for step, slot in workload.slot_of_step.items():
        load, copy = ops["load", step], ops["copy", step]
        guards = [ops[name, before[slot]] for name in ("copy", "backward")] if slot in before else []
        assert trace.deps(load).tolist() == guards[:1]
        assert trace.deps(copy).tolist() == [load, *guards[1:]]
        before[slot] = step
    assert len(before) == 5 < len(workload.slot_of_step)


def test_memory_is_flat_over_a_hundred_thousand_steps(lab):
    class Forgetful(lab.Training):
        def load(self, step: Step, slot: int) -> Op:
            self.slot_of_step.pop(step.index - 10, None)
            return super().load(step, slot)

        def logged(self, step: Step, log: Handle) -> None:
            assert log.value is None

    (first,) = lab.steps_of([2])
    blocks: dict[int, int] = {}

    def steps() -> Iterator[Step]:
        for index in range(100_000):
            if index in (20_000, 90_000):
                gc.collect()
                blocks[index] = sys.getallocatedblocks()
            if index == 90_000:
                tracemalloc.start()
            yield Step(index, first.knobs)

    device = lab.open_simulated(cap=500)
    try:
        pipeline(device, Forgetful(load=250, forward=100, backward=150), steps())
        gathered = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert device.recorder.dropped > 800_000
    assert blocks[90_000] - blocks[20_000] < 1_000, "objects that 70,000 steps left behind"
    assert gathered < 400_000, "bytes that 10,000 steps left behind, the rows of the trace among them"


# ---- on threads ------------------------------------------------------------------------------------------------


def uses_of(trace: Trace, name: str) -> dict[int, tuple[int, int]]:
    """Step → (start, end) of its op of this name."""
    rows = np.flatnonzero(trace["name"] == trace.names.index(name))
    columns = (trace[column][rows].tolist() for column in ("step", "start_ns", "end_ns"))
    return {step: (start, end) for step, start, end in zip(*columns, strict=True)}


def check_slots(trace: Trace, slot_of_step: dict[int, int]) -> None:
    """No buffer is written for a step before the last use of the step that had the slot before has ended."""
    load, copy, backward = (uses_of(trace, name) for name in ("load", "copy", "backward"))
    users: dict[int, list[int]] = defaultdict(list)
    for step, slot in sorted(slot_of_step.items()):
        if users[slot]:
            before = users[slot][-1]
            assert load[step][0] >= copy[before][1], f"host buffer {slot} refilled for step {step} while {before} is copied"
            assert copy[step][0] >= backward[before][1], f"device buffer {slot} overwritten by step {step} under {before}"
        users[slot].append(step)


def napping(lab, seed: int):
    """Stages that sleep for up to a millisecond, differently at every step."""
    chance = random.Random(seed)
    return lab.Training(**{
        stage: lambda step, most=most: chance.randint(0, most * US)
        for stage, most in {"load": 900, "copy": 500, "forward": 300, "backward": 400, "update": 100, "log": 200}.items()
    })  # fmt: skip


@pytest.mark.parametrize("knobs", [
    {}, {"copy_stream": "compute"}, {"non_blocking": False}, {"log_sync": True}, {"loader": "inline"}, {"log_every": 0},
])  # fmt: skip
def test_on_threads_no_buffer_is_rewritten_before_its_last_use_has_ended(lab, knobs: dict):
    device, workload = lab.open_cpu({"workers": 3}), napping(lab, seed=len(str(knobs)))
    bounds = run_bounded(lab, device, workload, TOGGLES, **knobs)
    trace = device.recorder.finish(device.now())
    assert set(trace["status"].tolist()) == {Status.OK}
    assert len(workload.slot_of_step) == len(TOGGLES)
    check_slots(trace, workload.slot_of_step)
    assert bounds.most_steps >= 1


def test_the_check_of_the_slots_can_fail(lab):
    device, workload = lab.open_simulated(), lab.Training(load=5, copy=500 * US, forward=100, backward=100, update=100)
    pipeline(device, workload, lab.steps_of([4] * 10))
    trace = device.recorder.finish(device.now())
    with pytest.raises(AssertionError, match="host buffer 0 refilled for step 1 while 0 is copied"):
        check_slots(trace, dict.fromkeys(range(10), 0))
