"""Pooling rounds: samples are pooled, percentiles are never averaged."""

import numpy as np
import pytest

from labkit.device.machine import Figure, Machine
from labkit.device.simulated import SimulatedDevice
from labkit.errors import TraceError
from labkit.metrics.pool import pool
from labkit.metrics.summary import summarize
from labkit.schedule import Cost, Lane, Op
from labkit.trace import Trace

MACHINE = Machine("test", "test", "cpu", {"cores": Figure(4, "test")})


def round_of(steps: int, op_ns: int) -> Trace:
    device = SimulatedDevice(MACHINE)
    for step in range(steps):
        device.wait([device.submit(Op("work", Lane("compute"), None, Cost(fixed_ns=op_ns), step, items=4))])
    device.close()
    return device.recorder.finish(device.now())


def test_one_round_pooled_is_its_own_summary() -> None:
    trace = round_of(200, 1000)
    assert pool([trace], warmup_steps=8) == summarize(trace, warmup_steps=8)


def test_throughput_is_all_items_over_all_windows_not_the_mean_of_rates() -> None:
    slow, fast = round_of(101, 3000), round_of(101, 1000)
    pooled = pool([slow, fast], warmup_steps=1).throughput
    walls = [summarize(trace, warmup_steps=1).window_ns for trace in (slow, fast)]
    wall_ns = sum(end - start for start, end in walls)
    assert pooled.value == pytest.approx(2 * 100 * 4 * 1e9 / wall_ns)
    assert pooled.n == 200


def test_percentiles_are_those_of_the_pooled_samples_and_become_possible_with_enough_of_them() -> None:
    rounds = [round_of(41, 1000 + 10 * index) for index in range(3)]
    assert summarize(rounds[0], warmup_steps=1).step_interval["p99"].value is None, "40 samples carry no p99"
    pooled = pool(rounds, warmup_steps=1).step_interval
    assert pooled["p99"].n == 120
    samples = np.repeat([1001.0, 1011.0, 1021.0], 40)
    assert pooled["p50"].value == np.quantile(samples, 0.5)
    assert pooled["p99"].value == np.quantile(samples, 0.99)


def test_shares_stay_shares() -> None:
    pooled = pool([round_of(50, 1000), round_of(50, 9000)], warmup_steps=1)
    for lane, busy in pooled.utilization.items():
        assert busy.value is not None
        assert busy.value + sum(pooled.waiting[lane].values()) == pytest.approx(1.0)


def test_no_round_is_an_error() -> None:
    with pytest.raises(TraceError, match="no round"):
        pool([])
