"""The experiment of cache tiers as its users start it: measured on the CPU, and on a simulated GPU, where what theory says can be looked at."""

from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.experiments import experiment
from labkit.experiments.tiers import TiersKnobs
from labkit.result import Run
from labkit.runner.execute import Controls, execute
from labkit.runner.job import Job, Recipe
from labkit.schedule import Budget

SIMULATED = {"device": "simulated:h200", "out": None, "steps": 4000, "warmup": 1000}
REAL = {"device": "cpu", "out": None, "blocks": 60, "rows": 64, "width": 16, "device_blocks": 8, "host_blocks": 12, "loop_blocks": 24}
KINDS = ("device", "host", "disk")


def simulated(**knobs: Any) -> dict[str, Any]:
    """The results of a run on the simulated device."""
    run = labkit.run("tiers", **{**SIMULATED, **knobs})
    assert run.record.status == "ok" and not run.record.measured, run.record.reason
    return run.record.results


def counts(results: dict[str, Any]) -> list[int]:
    return [results[f"{kind}_found"] for kind in KINDS]


# ---- for real ------------------------------------------------------------------------------------------------


def test_it_runs_for_real_and_tells_where_blocks_were_found_and_how_long_that_took():
    run: Run = labkit.run("tiers", steps=300, warmup=50, prefetch="markov", **REAL)
    assert run.record.status == "ok" and run.record.measured, run.record.reason
    results = run.record.results
    assert sum(counts(results)) == results["lookups"] == 300
    assert sum(results[f"{kind}_share"] for kind in KINDS) == pytest.approx(1)
    assert results["prefetches"] > 0 and results["latency_mean_ns"] > 0
    assert results["block_bytes"] == 4096 and results["file_bytes"] == 60 * 4096
    assert results["device_held_bytes"] <= (8 + 4) * 4096 and results["host_held_bytes"] <= (12 + 4) * 4096
    assert set(run.summary.utilization) >= {"disk", "h2d", "compute", "d2h", "host"}
    assert any("of the lookups found their block on the device" in note for note in run.record.notes)


@pytest.mark.parametrize("knobs", [{}, {"policy": "s3-fifo", "pattern": "mixture"}, {"prefetch": "next-n", "pattern": "loop", "in_flight": 3}])
def test_hits_are_the_same_on_every_device(knobs: dict[str, Any]):
    budget = {"steps": 200, "warmup": 20}
    measured = labkit.run("tiers", **{**REAL, **budget, **knobs}).record.results
    predicted = simulated(**{**REAL, **budget, **knobs, "device": "simulated:t4"})
    same = ("device_found", "host_found", "disk_found", "blocks_read", "blocks_promoted", "blocks_demoted", "prefetches", "prefetches_useful", "prefetches_wasted")
    assert {name: measured[name] for name in same} == {name: predicted[name] for name in same}


def test_a_recorded_list_is_looked_up(tmp_path: Path):
    lookups = tmp_path / "lookups.csv"
    lookups.write_text("block\n1\n1\n2\n")
    run = labkit.run("tiers", pattern="replay", replay=str(lookups), steps=30, warmup=0, **REAL)
    assert counts(run.record.results) == [28, 0, 2]


def test_a_list_that_cannot_be_used_fails_the_run_with_the_row(tmp_path: Path):
    lookups = tmp_path / "lookups.csv"
    lookups.write_text("block\n60\n")
    run = labkit.run("tiers", pattern="replay", replay=str(lookups), steps=30, **REAL)
    assert run.record.status == "failed"
    assert "row 2 is '60'; allowed: a block of the table, 0 to 59" in run.record.reason


# ---- theory --------------------------------------------------------------------------------------------------


def test_a_loop_that_does_not_fit_is_all_misses_under_lru_and_the_optimum_keeps_all_but_one():
    loop = {"pattern": "loop", "loop_blocks": 101, "device_blocks": 51, "host_blocks": 0, "steps": 5000}
    assert simulated(**loop)["device_share"] == 0
    assert simulated(**loop, policy="belady")["device_share"] == pytest.approx(50 / 100, abs=0.003), "(device − 1) ÷ (loop − 1)"


def test_the_optimum_is_above_every_policy_and_the_oracle_above_the_optimum():
    for pattern in ("zipf", "mixture", "scan"):
        shares = {policy: simulated(pattern=pattern, policy=policy, host_policy=policy) for policy in ("lru", "lfu", "clock", "s3-fifo", "belady")}
        for results in shares.values():
            assert shares["belady"]["device_share"] >= results["device_share"]
            assert shares["belady"]["disk_share"] <= results["disk_share"]
        oracle = simulated(pattern=pattern, prefetch="oracle")
        assert (oracle["device_share"], oracle["prefetches_wasted"]) == (1.0, 0)


def test_scans_flush_lru_and_pass_by_s3_fifo():
    mixture = {"pattern": "mixture", "scan_share": 0.5, "skew": 1.2, "steps": 8000}
    assert simulated(policy="s3-fifo", **mixture)["device_share"] > 1.1 * simulated(policy="lru", **mixture)["device_share"]


def test_latency_is_the_read_the_copy_and_the_lookup():
    results = simulated(disk_latency_us=1000, disk_mb_per_s=100)
    device, host, disk = (results[f"{kind}_latency_mean_ns"] for kind in KINDS)
    assert device < host < disk
    assert disk - host == pytest.approx(1e6 + results["block_bytes"] / 100e6 * 1e9, rel=0.03)
    cached = simulated(disk_latency_us=1000, disk_mb_per_s=100, cached=True)
    assert cached["disk_latency_mean_ns"] < 0.1 * disk
    assert counts(cached) == counts(results)


def test_more_memory_in_any_tier_makes_the_mean_lookup_quicker():
    means = [simulated(device_blocks=device, host_blocks=host)["latency_mean_ns"] for device, host in ((16, 32), (16, 128), (64, 128), (256, 256))]
    assert means == sorted(means, reverse=True) and means[-1] < 0.5 * means[0]


def test_foreseen_blocks_hide_the_disk_and_wrong_guesses_cost():
    scan = {"pattern": "scan", "host_blocks": 0, "disk_latency_us": 50, "disk_threads": 4}
    none, ahead, learned = (simulated(prefetch=prefetch, depth=4, **scan) for prefetch in ("none", "next-n", "markov"))
    assert ahead["latency_mean_ns"] < 0.5 * none["latency_mean_ns"]
    assert ahead["device_share"] > 0.99 and ahead["prefetches_wasted"] == 0
    assert learned["device_share"] > 0.99, "the warm-up went through the table once"
    wrong = simulated(prefetch="next-n", depth=4, disk_latency_us=50)
    assert wrong["prefetches_wasted"] > 10 * wrong["prefetches_useful"]
    assert wrong["latency_mean_ns"] > simulated(disk_latency_us=50)["latency_mean_ns"]


def test_on_a_device_without_room_it_fails_with_the_bytes():
    run = labkit.run("tiers", device="simulated:t4", rows=65_536, width=1024, steps=3, out=None)
    assert run.record.status == "failed"
    assert "device memory" in run.record.reason and "GiB" in run.record.reason


# ---- knobs ---------------------------------------------------------------------------------------------------


def test_all_knobs_are_live_but_the_table_its_memory_and_the_list():
    cold = {name for name in TiersKnobs.model_fields if not TiersKnobs.is_live(name)}
    assert cold == {"blocks", "rows", "width", "taken", "pinned", "replay", "folder", "seed"}
    assert TiersKnobs.inert_reason("disk_latency_us", "cpu") == "the disk is a real one here"
    assert TiersKnobs.inert_reason("disk_latency_us", "simulated") is None


@pytest.mark.parametrize("device", ["cpu", "simulated:h200"])
def test_knobs_that_are_turned_act_on_the_lookups_to_come(device: str):
    found = experiment("tiers")
    knobs = TiersKnobs.parse({name: value for name, value in REAL.items() if name not in ("device", "out")})
    later = knobs.changed(pattern="loop", loop_blocks=4, policy="clock", disk_threads=3, prefetch="stride", in_flight=2)
    workload, controls = found.prepare(knobs, device.partition(":")[0]), Controls()
    answered, seen = workload.answered, []

    def answer(step: Any, looked: Any, handle: Any) -> None:
        seen.append(looked.block)
        if len(seen) == 50:
            controls.turn(later)
        answered(step, looked, handle)

    workload.answered = answer
    outcome = execute(Job(Recipe(found.name, found.kernel, found.prepare, found.widths), knobs, device, Budget(steps=150, warmup=0)), workload, controls)
    workload.close()
    assert outcome.status == "ok", outcome.failure
    assert set(seen[60:]) == {0, 1, 2, 3} and len(set(seen[:50])) > 10
    assert {mark.knob for mark in outcome.trace.marks} == {"pattern", "loop_blocks", "policy", "disk_threads", "prefetch", "in_flight"}


@pytest.mark.parametrize("preset", experiment("tiers").presets)
def test_every_preset_runs(preset: str):
    assert simulated(**experiment("tiers").presets[preset], steps=500)["lookups"] == 500
