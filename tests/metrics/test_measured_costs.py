"""What a run cost is what the simulated device needs to predict it, and others like it."""

import pytest

from labkit.device.cost_model import MeasuredOp
from labkit.device.simulated import SimulatedDevice
from labkit.errors import TraceError
from labkit.metrics import measured_costs
from labkit.schedule import Cost, Status
from labkit.trace import KIND_WAIT
from tests.metrics.recorded import recorded, row
from tests.metrics.virtual_runs import machine, op, pipeline, run

LAZY = machine(wake_ns=50, dispatch_ns=20, submit_ns=7)


def test_the_costs_of_a_simulated_run_are_those_of_its_machine() -> None:
    costs = measured_costs(
        run(lambda device: pipeline(device, 20, prefetch=0), on=LAZY), warmup_steps=5, source="run 1"
    )
    assert {name: (known.mean_ns, known.n) for name, known in costs.ops.items()} == {
        "decode": (1000, 15), "copy": (100, 15), "forward": (300, 15), "update": (600, 15),
    }  # fmt: skip
    assert (costs.submit_ns, costs.wake_ns, costs.source) == (7, 50, "run 1")
    assert costs.dispatch_ns == {"workers": 20, "h2d": 20, "compute": 20}


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_the_costs_of_one_setting_predict_another_to_the_nanosecond(prefetch: int) -> None:
    costs = measured_costs(run(lambda device: pipeline(device, 30, prefetch=2), on=LAZY))
    device = SimulatedDevice(machine(), measured=costs)
    pipeline(device, 30, prefetch)
    device.close()
    predicted = device.recorder.finish(device.now())
    assert predicted.makespan_ns == run(lambda device: pipeline(device, 30, prefetch), on=LAZY).makespan_ns


def test_the_mean_keeps_the_slow_ones() -> None:
    trace = recorded(
        row(0, "decode", "workers", 0, 10),
        row(1, "decode", "workers", 10, 20),
        row(2, "decode", "workers", 20, 120),
    )
    assert measured_costs(trace).ops["decode"] == MeasuredOp(40.0, Cost(), 3)


def test_failed_ops_and_warm_up_steps_do_not_count() -> None:
    trace = recorded(
        row(0, "decode", "workers", 0, 900, step=0),
        row(1, "wait", "host", 0, 901, kind=KIND_WAIT, woke_by=0),
        row(2, "decode", "workers", 910, 920, step=1, submit_ns=905),
        row(3, "decode", "workers", 920, 990, step=2, status=Status.FAILED, submit_ns=906),
    )
    costs = measured_costs(trace, warmup_steps=1)
    assert costs.ops["decode"].mean_ns == 10
    assert costs.wake_ns == 0, "the wait belongs to the warm-up"


def test_waits_that_did_not_have_to_wait_say_nothing_of_waking_up() -> None:
    trace = recorded(
        row(0, "step", "compute", 0, 100),
        row(1, "wait", "host", 10, 130, kind=KIND_WAIT, woke_by=0),
        row(2, "wait", "host", 140, 145, kind=KIND_WAIT, woke_by=0),
        row(3, "wait", "host", 150, 300, kind=KIND_WAIT),
    )
    assert measured_costs(trace).wake_ns == 30


def test_a_reference_cost_of_the_caller_goes_before_the_columns_of_the_trace() -> None:
    trace = run(lambda device: device.wait([device.submit(op("decode", "workers", 100))]))
    reference = {"decode": Cost(jpeg_pixels=640 * 480), "never ran": Cost()}
    ops = measured_costs(trace, costs=reference).ops
    assert ops == {"decode": MeasuredOp(100.0, reference["decode"], 1)}
    assert ops["decode"].scaled_ns(Cost(jpeg_pixels=2 * 640 * 480)) == 200


def test_the_mean_cost_comes_from_the_columns_where_the_caller_knows_none() -> None:
    def program(device: SimulatedDevice) -> None:
        for size in (100, 300):
            step = op("step", "compute")
            device.submit(
                type(step)("step", step.lane, step.run, Cost(flop=size, bytes=2 * size, fixed_ns=10))
            )

    figures = {"host_flop_per_s": 1e9, "host_bytes_per_s": 1e9}
    assert measured_costs(run(program, on=machine(**figures))).ops["step"].cost == Cost(flop=200, bytes=400)


def test_an_op_that_started_before_its_launch_had_ended_was_dispatched_at_once() -> None:
    trace = recorded(row(0, "step", "compute", 10, 450, submit_ns=0, queued_ns=400))
    costs = measured_costs(trace)
    assert (costs.dispatch_ns, costs.submit_ns) == ({"compute": 0}, 400)


def test_where_nothing_succeeded_there_are_no_costs() -> None:
    trace = recorded(row(0, "step", "compute", 0, 10, step=0))
    with pytest.raises(TraceError, match="no op succeeded after 1 steps of warm-up"):
        measured_costs(trace, warmup_steps=1)
