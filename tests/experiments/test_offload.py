"""The offload experiment as its users start it: measured on the CPU, and on a simulated GPU whose link is what theory says it is."""

import pytest

import labkit
from labkit.device.machine import load_machine
from labkit.result import Run

BIG = {"device": "simulated:h200", "layers": 8, "width": 4096, "device_budget": 0.0, "out": None, "steps": 20, "warmup": 4}


def pass_ms(run: Run) -> float:
    return run.summary.step_interval["p50"].value / 1e6


def test_it_runs_for_real_and_tells_what_it_held_and_what_came_out():
    run = labkit.run("offload", device="cpu", width=64, layers=4, steps=6, warmup=2, source="disk", weights="int8", out=None)
    assert run.record.status == "ok" and run.record.measured
    assert set(run.summary.utilization) >= {"disk", "h2d", "compute", "host"}
    assert run.record.results["passes"] == 8 and len(run.record.results["result_sha256"]) == 64
    assert 0.999 < run.record.results["cosine_to_fp32"] < 1
    assert "packed (0.2" in run.record.notes[0]


def test_where_the_link_is_the_limit_a_pass_takes_the_bytes_over_the_link():
    run = labkit.run("offload", prefetch=2, slots=3, batch_size=8, **BIG)
    link = load_machine("h200")["link_h2d_bytes_per_s"]
    expected_ms = 8 * run.record.results["layer_bytes"] / link * 1e3
    assert pass_ms(run) == pytest.approx(expected_ms, rel=0.02)
    assert run.summary.utilization["h2d"].value > 0.97
    assert "copying to the device is the bottleneck" in run.summary.bottleneck


def test_where_computing_is_the_limit_offloading_costs_a_few_percent():
    held = labkit.run("offload", batch_size=32_768, **{**BIG, "device_budget": 1.0})
    streamed = labkit.run("offload", prefetch=2, slots=3, batch_size=32_768, **BIG)
    sequential = labkit.run("offload", prefetch=0, batch_size=32_768, **BIG)
    assert 1.0 <= pass_ms(streamed) / pass_ms(held) <= 1.05
    assert pass_ms(sequential) > 1.15 * pass_ms(streamed)


def test_the_crossover_is_where_a_layer_takes_as_long_as_its_weights():
    """Below it the time of a pass does not depend on the batch; above it, it does not depend on the link."""
    times = {batch: pass_ms(labkit.run("offload", prefetch=2, slots=3, batch_size=batch, **BIG)) for batch in (256, 1024, 4096, 16_384, 32_768)}
    held = {batch: pass_ms(labkit.run("offload", batch_size=batch, **{**BIG, "device_budget": 1.0})) for batch in times}
    link_ms = times[256]
    assert times[1024] == pytest.approx(link_ms, rel=0.02)
    for batch, measured in times.items():
        assert measured == pytest.approx(max(link_ms, held[batch]), rel=0.06), batch


def test_packed_weights_cross_the_link_four_times_as_fast_if_they_are_unpacked_behind_it():
    settings = {**BIG, "prefetch": 2, "slots": 3, "batch_size": 8}
    plain, behind, before = (
        pass_ms(labkit.run("offload", **settings, **knobs))
        for knobs in ({}, {"weights": "int8"}, {"weights": "int8", "dequant_on": "cpu", "workers": 4})
    )
    assert plain / behind == pytest.approx(1 / 0.2505, rel=0.03)
    assert before >= 0.98 * plain, "unpacked before the link, as many bytes cross it as ever"


def test_on_a_device_without_room_it_fails_with_the_bytes():
    run = labkit.run("offload", device="simulated:t4", layers=64, width=8192, device_budget=1.0, steps=3, out=None)
    assert run.record.status == "failed"
    assert "device memory" in run.record.reason and "GiB" in run.record.reason
