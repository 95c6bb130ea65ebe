"""The simulated device on its virtual clock: every number here is worked out by hand.

The test machine has no overheads unless a test gives it some, so a submit costs the 1 ns that no verb undercuts.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.device.cost_model import MeasuredCosts, MeasuredOp
from labkit.device.simulated import PRICES_KEPT, SimulatedDevice
from labkit.errors import MachineError, OpCancelled, OpFailed
from labkit.schedule import Cost, Handle, Lane, Op, Status
from labkit.trace import KIND_WAIT, Trace


def op(name: str, role: str, ns: int = 0, *, index: int = 0, **more) -> Op:
    cost = more.pop("cost", Cost(fixed_ns=ns))
    return Op(name, Lane(role, index), lambda: pytest.fail("it ran"), cost, **more)


def times(handle: Handle) -> tuple[int, int]:
    return handle.start_ns, handle.end_ns


def closed_trace(device: SimulatedDevice) -> Trace:
    device.close()
    return device.recorder.finish(device.now())


@pytest.fixture
def gpu(make_machine):
    """A simulated GPU without overheads; figures and widths on request."""

    def open_gpu(widths=None, measured=None, **figures) -> SimulatedDevice:
        return SimulatedDevice(make_machine("cuda", **figures), widths=widths, measured=measured)

    return open_gpu


@pytest.fixture
def cpu(make_machine):
    def open_cpu(widths=None, **figures) -> SimulatedDevice:
        return SimulatedDevice(make_machine("cpu", **figures), widths=widths)

    return open_cpu


# ---- the fold ------------------------------------------------------------------------------------------------


def test_an_op_starts_at_the_latest_of_host_time_free_unit_and_dependencies(gpu):
    device = gpu()
    first = device.submit(op("load", "workers", 100))
    assert device.now() == 1 and times(first) == (1, 101), "the host's time decides"
    second = device.submit(op("load", "workers", 30))
    assert device.now() == 2 and times(second) == (101, 131), "the unit decides"
    step = device.submit(op("step", "compute", 50), first, after=(second,))
    assert device.now() == 3 and times(step) == (131, 181), "the last dependency decides"


def test_wait_moves_the_host_to_the_first_end_and_costs_at_least_a_nanosecond(gpu):
    device = gpu()
    slow, quick = device.submit(op("slow", "workers", 100)), device.submit(op("quick", "compute", 10))
    assert device.wait([slow, quick]) == [quick] and device.now() == quick.end_ns == 12
    assert device.wait([quick]) == [quick] and device.now() == 13
    assert device.wait([slow]) == [slow] and device.now() == slow.end_ns == 101


def test_the_ops_of_a_lane_of_width_two_take_the_unit_that_is_free_first(gpu):
    device = gpu({"workers": 2})
    handles = [device.submit(op("load", "workers", ns)) for ns in (100, 30, 30)]
    assert [times(handle) for handle in handles] == [(1, 101), (2, 32), (32, 62)]
    assert closed_trace(device)["unit"].tolist() == [0, 1, 1]


def test_prefetch_hides_the_load_behind_the_step(gpu):
    """Load 60, step 100: synchronous 161 a step (one submit, load, step); one load ahead 102 (two submits, step)."""

    def makespan(prefetch: int) -> int:
        device = gpu()
        loading = []
        for _ in range(50):
            loading.append(device.submit(op("load", "workers", 60)))
            while len(loading) > prefetch:
                device.wait([device.submit(op("step", "compute", 100), loading.pop(0))])
        return device.now()

    assert makespan(0) == 50 * 161
    assert makespan(1) == 161 + 48 * 102


def test_a_deadline_between_two_ends_is_reached_exactly(gpu):
    device = gpu()
    handle = device.submit(op("load", "workers", 100))
    assert device.wait([handle], until=50) == [] and device.now() == 50
    assert device.wait([], until=70) == [] and device.now() == 70
    assert device.wait([], until=10) == [] and device.now() == 71, "a past deadline costs the 1 ns of a verb"
    assert device.wait([handle], until=101) == [handle] and device.now() == 101


def test_an_op_on_the_host_lane_moves_the_host_by_its_cost(gpu):
    device = gpu()
    load = device.submit(op("load", "workers", 100))
    log = device.submit(op("log", "host", 7, simulated_value=3), load)
    assert times(log) == (101, 108) and device.now() == 108 and log.value == 3


def test_a_blocking_op_holds_the_host_and_the_trace_shows_the_wait(gpu):
    device = gpu(wake_ns=4)
    handle = device.submit(op("read", "disk", 100, blocking=True))
    assert times(handle) == (1, 101) and device.now() == 105
    trace = closed_trace(device)
    assert trace["kind"][1] == KIND_WAIT and trace["woke_by"][1] == handle.id
    assert (trace["start_ns"][1], trace["end_ns"][1]) == (1, 105)


# ---- overheads ------------------------------------------------------------------------------------------------


def test_each_launch_costs_the_host_its_overhead_on_gpu_lanes_only(gpu):
    device = gpu(submit_ns=2, launch_ns=5)
    device.submit(op("load", "workers", 10))
    assert device.now() == 2
    step = device.submit(op("step", "compute", cost=Cost(fixed_ns=10, launches=3)))
    assert device.now() == 2 + 2 + 3 * 5 and step.start_ns == 19
    device.submit(op("copy", "h2d", 10))
    assert device.now() == 19 + 2 + 5


def test_on_a_cpu_machine_nothing_is_launched(cpu):
    device = cpu(submit_ns=2, launch_ns=5)
    device.submit(op("step", "compute", cost=Cost(fixed_ns=10, launches=3)))
    assert device.now() == 2


def test_the_host_wakes_late_only_where_it_had_to_wait(gpu):
    device = gpu(wake_ns=20)
    handle = device.submit(op("load", "workers", 100))
    device.wait([handle])
    assert device.now() == 121
    other = device.submit(op("load", "workers", 10))
    device.wait([], until=140)
    device.wait([other])
    assert other.end_ns == 132 and device.now() == 141, "it had ended: the host did not sleep"


def test_what_ends_while_the_host_wakes_is_returned_too(gpu):
    device = gpu(wake_ns=20)
    first, second = device.submit(op("load", "workers", 100)), device.submit(op("step", "compute", 110))
    assert device.wait([first, second]) == [first, second]


def test_threads_pay_for_dispatch_and_streams_do_not(gpu, cpu):
    device = gpu(dispatch_ns=7)
    assert times(device.submit(op("load", "workers", 100))) == (8, 108)
    assert times(device.submit(op("step", "compute", 100))) == (2, 102)
    device = cpu(dispatch_ns=7)
    assert times(device.submit(op("step", "compute", 100))) == (8, 108)


# ---- shared hardware ------------------------------------------------------------------------------------------


def test_three_threads_on_two_cores_share_them_first_come_first_served(gpu):
    device = gpu({"workers": 3}, cores=2)
    handles = [device.submit(op("load", "workers", 100)) for _ in range(4)]
    assert [times(handle) for handle in handles] == [(1, 101), (2, 102), (101, 201), (102, 202)]


def test_three_threads_on_three_cores_do_not_wait_for_each_other(gpu):
    device = gpu({"workers": 3}, cores=3)
    handles = [device.submit(op("load", "workers", 100)) for _ in range(3)]
    assert [handle.start_ns for handle in handles] == [1, 2, 3]


def test_an_op_takes_the_core_that_has_been_idle_for_the_shortest_time(gpu):
    """So the other core, idle for longer, is left to an op that could have begun earlier."""
    device = gpu({"workers": 3}, cores=2)
    short, long = device.submit(op("load", "workers", 10)), device.submit(op("load", "workers", 50))
    late = device.submit(op("load", "workers", 100), long)
    early = device.submit(op("load", "workers", 20), short)
    assert times(late) == (52, 152) and times(early) == (11, 31)


def test_on_a_cpu_machine_compute_has_a_core_of_its_own_and_workers_share_the_rest(cpu, gpu):
    ends = []
    for open_device in (cpu, gpu):
        device = open_device({"workers": 2}, cores=2)
        step = device.submit(op("step", "compute", 100))
        loads = [device.submit(op("load", "workers", 100)) for _ in range(2)]
        ends.append([handle.end_ns for handle in (step, *loads)])
    assert ends == [[101, 102, 202], [101, 102, 103]]


def test_on_one_core_everything_waits_for_it(cpu):
    device = cpu({"workers": 2}, cores=1)
    device.submit(op("step", "compute", 100))
    assert [device.submit(op("load", "workers", 100)).end_ns for _ in range(2)] == [201, 301]


def test_a_copy_that_begins_while_the_other_direction_copies_keeps_its_duplex_share(gpu):
    device = gpu(link_duplex_share=0.5)
    down = device.submit(op("down", "h2d", cost=Cost(bytes=1000)))
    assert times(down) == (1, 1001)
    up = device.submit(op("up", "d2h", cost=Cost(bytes=1000)))
    assert times(up) == (2, 2002), "2000 ns at half its rate"
    device.wait([up])
    alone = device.submit(op("alone", "h2d", cost=Cost(bytes=1000)))
    assert alone.end_ns - alone.start_ns == 1000


# ---- costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "cost", "ns"),
    [
        ("compute", Cost(flop=5_000), 20),  # 5e11 FLOP/s in 32 bits, half of it reachable
        ("compute", Cost(flop=5_000, bits=16), 10),  # 1e12 FLOP/s in 16
        ("compute", Cost(bytes=50), 50),  # 2e9 B/s, half of it reachable
        ("compute", Cost(flop=5_000, bytes=50), 50),  # the larger of the two
        ("compute", Cost(flop=5_000, fixed_ns=5), 25),
        ("h2d", Cost(bytes=1_000), 1_000),  # 1e9 B/s
        ("h2d", Cost(bytes=1_000, pageable=True), 2_000),  # 5e8 B/s
        ("d2h", Cost(bytes=1_000, pageable=True), 2_000),
        ("workers", Cost(jpeg_pixels=200, flop=30, bytes=40), 240),  # decoding, then the larger of the rest
        ("disk", Cost(), 1),  # nothing is free
    ],
)
def test_an_op_lasts_as_long_as_the_machines_figures_say(gpu, role, cost, ns):
    handle = gpu().submit(op("op", role, cost=cost))
    assert handle.end_ns - handle.start_ns == ns


def test_no_kernel_is_shorter_than_the_shortest(gpu):
    device = gpu(gpu_min_kernel_ns=3)
    handle = device.submit(op("step", "compute", cost=Cost(flop=5_000, launches=70)))
    assert handle.end_ns - handle.start_ns == 210


def test_a_copy_of_nothing_takes_the_links_latency(gpu):
    handle = gpu(link_latency_ns=30).submit(op("copy", "h2d", cost=Cost(bytes=100)))
    assert handle.end_ns - handle.start_ns == 130


def test_a_figure_that_the_machine_lacks_is_named_when_it_is_needed(make_machine):
    machine = make_machine("cuda")
    lacking = type(machine)("test", "Test", "cuda", {"cores": machine.figures["cores"]})
    with pytest.raises(
        MachineError, match=r"machine 'test' has no figure 'link_h2d_bytes_per_s' \(host to device"
    ):
        SimulatedDevice(lacking).submit(op("copy", "h2d", cost=Cost(bytes=1)))


def test_measured_times_go_before_the_machines_figures_and_scale_with_what_the_op_mainly_asks_for(gpu):
    ops = {
        "load": MeasuredOp(90.0, Cost(jpeg_pixels=10, flop=1, bytes=3)),
        "step": MeasuredOp(400.0, Cost(flop=100, bytes=10)),
        "copy": MeasuredOp(60.0, Cost(bytes=10)),
        "log": MeasuredOp(33.0, Cost()),
    }
    measured = MeasuredCosts(ops, submit_ns=5.0, wake_ns=6.0, dispatch_ns={"workers": 8.0})
    device = gpu(measured=measured, submit_ns=1000, wake_ns=1000, dispatch_ns=1000, launch_ns=1000)
    load = device.submit(op("load", "workers", cost=Cost(jpeg_pixels=20, flop=1, bytes=3)))
    assert device.now() == 5 and times(load) == (13, 193), "twice the pixels"
    step = device.submit(op("step", "compute", cost=Cost(flop=50, bytes=10)))
    assert times(step) == (10, 210), "half the FLOP"
    copy = device.submit(op("copy", "h2d", cost=Cost(bytes=30)))
    assert times(copy) == (15, 195), "three times the bytes"
    log = device.submit(op("log", "disk", cost=Cost(bytes=30)))
    assert times(log) == (20, 53), "nothing to scale by"
    other = device.submit(op("other", "d2h", cost=Cost(bytes=100)))
    assert times(other) == (25, 125), "not measured: the machine's figures"
    device.wait([step])
    assert device.now() == 216


def test_prices_are_remembered_but_not_without_bound(gpu):
    device = gpu()
    for ns in range(1, 2 * PRICES_KEPT):
        device.submit(op("step", "compute", ns))
    assert len(device._costs) <= PRICES_KEPT


# ---- values, failures, cancel ---------------------------------------------------------------------------------


def test_a_value_is_what_the_op_says_and_an_exception_makes_it_fail_there(gpu):
    device = gpu()
    fine = device.submit(op("fine", "compute", 10, simulated_value=[1, 2]))
    broken = device.submit(op("broken", "compute", 10, simulated_value=MemoryError("full"), items=2))
    assert not device.failed, "it has not happened yet"
    device.wait([fine])
    assert fine.value == [1, 2] and not device.failed
    device.wait([broken])
    assert device.failed
    with pytest.raises(OpFailed, match="full"):
        _ = broken.value
    assert closed_trace(device)["items"].tolist() == [0, 0, 0, 0]


def test_a_skipped_op_takes_no_time_of_its_lane(gpu):
    device = gpu()
    broken = device.submit(op("broken", "workers", 100, simulated_value=ValueError("boom")))
    skipped = device.submit(op("skipped", "compute", 50), broken)
    after = device.submit(op("after", "compute", 50))
    assert skipped.status is Status.SKIPPED and (skipped.start_ns, skipped.end_ns) == (-1, 101)
    assert times(after) == (3, 53)


def test_cancel_rewrites_what_had_not_started_and_keeps_what_was_running(gpu):
    device = gpu()
    running = device.submit(op("running", "compute", 100, items=1))
    queued = device.submit(op("queued", "compute", 100, items=1, cost=Cost(flop=5, fixed_ns=100)))
    device.wait([], until=50)
    device.cancel()
    late = device.submit(op("late", "workers", 10))
    assert late.status is Status.CANCELLED
    assert device.wait([queued]) == [queued]
    with pytest.raises(OpCancelled):
        _ = queued.value
    trace = closed_trace(device)
    assert device.now() == 101, "the clock ends with what was running"
    assert trace["status"].tolist() == [Status.OK, Status.CANCELLED, Status.OK, Status.CANCELLED, Status.OK]
    assert trace["start_ns"].tolist()[:2] == [1, -1] and trace["end_ns"].tolist()[:2] == [101, -1]
    assert trace["items"].tolist() == [1, 0, 0, 0, 0]
    assert trace["flop"].tolist() == [0, 0, 0, 0, 0]
    assert running.status is Status.OK


def test_what_starts_at_the_instant_of_the_cancel_has_started(gpu):
    device = gpu()
    device.submit(op("first", "compute", 49))
    second = device.submit(op("second", "compute", 100))
    device.wait([], until=50)
    device.cancel()
    assert device.wait([second]) == [second] and times(second) == (50, 150)
    assert closed_trace(device)["status"].tolist() == [Status.OK] * 4


def test_a_failure_after_the_cancel_never_happened(gpu):
    device = gpu()
    device.submit(op("running", "compute", 100))
    device.submit(op("broken", "compute", 10, simulated_value=ValueError("boom")))
    device.wait([], until=50)
    device.cancel()
    assert device.close() == [] and not device.failed


# ---- widths ----------------------------------------------------------------------------------------------------


def test_a_unit_that_went_while_busy_comes_back_when_its_op_has_ended(gpu):
    device = gpu({"workers": 2})
    for _ in range(2):
        device.submit(op("load", "workers", 100))
    device.resize("workers", 1)
    device.resize("workers", 2)
    assert [times(device.submit(op("load", "workers", 10))) for _ in range(2)] == [(101, 111), (102, 112)]
    spans = [
        (span.unit, span.open_ns, span.close_ns)
        for span in closed_trace(device).units
        if span.lane == "workers"
    ]
    assert spans == [(0, 0, 112), (1, 0, 102), (1, 102, 112)]


def test_a_new_unit_takes_the_next_op_at_once(gpu):
    device = gpu()
    device.submit(op("load", "workers", 100))
    device.resize("workers", 2)
    assert times(device.submit(op("load", "workers", 10))) == (2, 12)


# ---- repeatable -------------------------------------------------------------------------------------------------

PROGRAM = """
import hashlib, random
from labkit.device.machine import Figure, Machine
from labkit.device.simulated import SimulatedDevice
from labkit.schedule import Cost, Lane, Op
figures = {"cores": 2, "submit_ns": 900, "wake_ns": 1700, "dispatch_ns": 333, "launch_ns": 4100, "link_duplex_share": 0.7,
           "link_h2d_bytes_per_s": 2.6e10, "link_d2h_bytes_per_s": 2.5e10, "link_pageable_bytes_per_s": 1e10,
           "gpu_flop_per_s": 3e14, "gpu_fp32_flop_per_s": 1.5e14, "gpu_fp32_flop_per_s": 1e14, "gpu_flop_share": 0.78, "hbm_bytes_per_s": 2e12, "hbm_share": 0.92, "gpu_min_kernel_ns": 2000,
           "host_flop_per_s": 7e10, "host_bytes_per_s": 8e9, "decode_pixels_per_s": 9e7}
machine = Machine("test", "Test", "cuda", {name: Figure(value, "test") for name, value in figures.items()})
device = SimulatedDevice(machine, widths={"workers": 3})
chance, handles = random.Random(7), []
for number in range(3000):
    role = chance.choice(["host", "workers", "h2d", "compute", "d2h"])
    cost = Cost(*(chance.randint(0, 10**9) for _ in range(2)), chance.randint(0, 10**6), 0, chance.randint(1, 9), chance.random() < 0.5)
    error = ValueError("boom") if chance.random() < 0.02 else None
    deps = chance.sample(handles[-6:], min(len(handles), 2))
    handles.append(device.submit(Op("op", Lane(role), print, cost, simulated_value=error), *deps))
    if number % 3 == 0:
        device.wait(chance.sample(handles[-6:], 1))
    if number % 500 == 0:
        device.resize("workers", chance.randint(1, 4))
device.close()
trace = device.recorder.finish(device.now())
digest = hashlib.sha256()
for name in sorted(trace.columns):
    digest.update(trace[name].tobytes())
print(digest.hexdigest(), device.now())
"""


def test_the_same_program_leaves_the_same_trace_bit_for_bit_in_every_process():
    root = Path(__file__).parents[2]
    prints = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=root, env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(prints) == 1 and prints.pop().strip()


def test_the_simulated_device_needs_no_torch():
    root = Path(__file__).parents[2]
    program = "import sys\nsys.modules['torch'] = None\n" + PROGRAM
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


# ---- device memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("resident", "fits"), [(16 * 10**9, True), (16 * 10**9 + 1, False)])
def test_an_op_that_needs_more_than_the_device_memory_fails(gpu, resident: int, fits: bool):
    device = gpu(gpu_memory_bytes=16e9)
    handle = device.submit(op("forward", "compute", cost=Cost(fixed_ns=10, resident=resident)))
    device.wait([handle])
    assert (handle.status is Status.OK) is fits
    failures = [str(failure.error) for failure in device.close()]
    assert failures == ([] if fits else ["'forward' needs 14.9 GiB of device memory at once; Test has 14.9 GiB: use smaller batches"])


def test_what_follows_an_op_that_does_not_fit_is_skipped(gpu):
    device = gpu(gpu_memory_bytes=1e9)
    forward = device.submit(op("forward", "compute", cost=Cost(fixed_ns=10, resident=2 * 10**9)))
    backward = device.submit(op("backward", "compute", 10), forward)
    assert (forward.status, backward.status) == (Status.FAILED, Status.SKIPPED)


def test_where_the_memory_is_the_hosts_or_unknown_there_is_no_such_limit(gpu, cpu):
    for device in (gpu(), cpu(gpu_memory_bytes=1.0)):
        handle = device.submit(op("forward", "compute", cost=Cost(fixed_ns=10, resident=10**12)))
        assert handle.status is Status.OK
