"""What is looked up is what was stored, bit for bit, whatever the policy, the prefetcher, the sizes and the pattern."""

import os
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from labkit.device.cpu import CpuDevice
from labkit.errors import DataError, KnobError
from labkit.experiments.tiers import TiersKnobs, prepare, widths
from labkit.kernels.eviction import PolicyName
from labkit.kernels.prefetching import PrefetcherName
from labkit.kernels.tiers import tiers
from labkit.schedule import Cost, Handle, Status, Step
from labkit.workloads.accesses import accesses_of
from labkit.workloads.blocks import Looked, Tier
from labkit.workloads.tiered import Tiered

SMALL = {"blocks": 24, "rows": 32, "width": 8, "taken": 5, "device_blocks": 4, "host_blocks": 6, "loop_blocks": 13}


class Watched(Tiered):
    """Keeps what each lookup answered, and where its block was found."""

    def begin(self) -> None:
        super().begin()
        self.answers: list[tuple[Looked, np.ndarray]] = []

    def answered(self, step: Step, looked: Looked, answer: Handle) -> None:
        self.answers.append((looked, answer.value.numpy().copy()))
        super().answered(step, looked, answer)


def run(lookups: int = 150, changes: dict[int, dict[str, Any]] | None = None, **knobs: Any) -> tuple[list[tuple[Looked, np.ndarray]], dict[str, Any]]:
    """The answers and the results of some lookups on the cpu device."""
    settings = TiersKnobs.parse({**SMALL, **knobs})
    workload, steps = Watched(settings, "cpu"), []
    for index in range(lookups):
        if index in (changes or {}):
            settings = settings.changed(**(changes or {})[index])
        steps.append(Step(index, settings))
    device = CpuDevice(widths=widths(settings))
    try:
        tiers(device, workload, steps)
    finally:
        failures = device.close()
        results = workload.results()
        workload.close()
    assert not failures, failures
    return workload.answers, results


def stored(block: int) -> np.ndarray:
    """The rows that a lookup takes out of a block, made anew."""
    rows = np.random.default_rng(0).permutation(SMALL["rows"])[: SMALL["taken"]]
    return np.random.default_rng((0, block)).random((SMALL["rows"], SMALL["width"]), np.float32)[rows]


def check(answers: list[tuple[Looked, np.ndarray]], knobs: TiersKnobs) -> None:
    sequence = accesses_of(knobs)
    for place, (looked, rows) in enumerate(answers):
        assert (looked.lookup, looked.block) == (place, sequence.at(place))
        assert rows.tobytes() == stored(looked.block).tobytes()


# ---- bit for bit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", get_args(PolicyName))
@pytest.mark.parametrize("prefetch", get_args(PrefetcherName))
def test_whatever_the_policy_and_the_prefetcher_what_is_looked_up_is_what_was_stored(policy: str, prefetch: str):
    knobs = {"policy": policy, "host_policy": policy, "prefetch": prefetch, "in_flight": 3, "pattern": "mixture"}
    answers, results = run(**knobs)
    check(answers, TiersKnobs.parse({**SMALL, **knobs}))
    assert results["lookups"] == len(answers) == 150
    assert results["device_found"] + results["host_found"] + results["disk_found"] == 150


@pytest.mark.parametrize(
    "knobs",
    [
        {"host_blocks": 0},
        {"device_blocks": 1, "host_blocks": 0, "staging": 1, "in_flight": 4},
        {"promote_after": 2},
        {"promote_after": 3, "policy": "belady", "host_policy": "belady"},
        {"pattern": "scan", "stride": 5, "prefetch": "stride", "cached": True},
        {"pattern": "loop", "shuffled": True, "prefetch": "markov", "depth": 3},
        {"device_blocks": 100, "host_blocks": 100},
        {"taken": 99},
    ],
)
def test_every_size_and_pattern_too(knobs: dict[str, Any]):
    answers, results = run(**knobs)
    if "taken" not in knobs:
        check(answers, TiersKnobs.parse({**SMALL, **knobs}))
    else:
        assert answers[0][1].shape == (32, 8), "no more rows than there are"
    assert results["lookups"] == 150


def test_knobs_turned_between_lookups_change_nothing_in_what_is_looked_up():
    changes = {
        20: {"device_blocks": 2, "policy": "s3-fifo"}, 40: {"host_blocks": 0}, 60: {"device_blocks": 9, "host_blocks": 5, "in_flight": 5},
        80: {"prefetch": "oracle", "depth": 4}, 100: {"policy": "belady", "staging": 1}, 120: {"promote_after": 2, "cached": True, "prefetch": "none"},
    }  # fmt: skip
    answers, _ = run(changes=changes)
    check(answers, TiersKnobs.parse(SMALL))


def test_rows_that_are_not_what_was_stored_end_the_run_with_the_lookup_and_the_block():
    knobs = TiersKnobs.parse(SMALL)
    workload = Tiered(knobs, "cpu")
    answer = Handle(0, "answer")
    answer._value, answer.status, answer.seen = torch.zeros(5, 8), Status.OK, True
    with pytest.raises(DataError, match="lookup 17 of block 3, in host memory, is not what was stored: its checksum differs"):
        workload.answered(Step(0, knobs), Looked(17, 3, Tier.HOST, False, False, 0, 1), answer)
    workload.close()


# ---- bytes and memory ----------------------------------------------------------------------------------------


def test_each_miss_is_billed_with_its_bytes():
    _, results = run(policy="lfu")
    block = 32 * 8 * 4
    assert results["block_bytes"] == block
    assert results["read_bytes"] == results["disk_found"] * block
    assert results["promoted_bytes"] == (results["disk_found"] + results["host_found"]) * block
    assert results["prefetches"] == 0 and results["demoted_bytes"] <= results["promoted_bytes"]


@pytest.mark.parametrize(("device_blocks", "host_blocks", "staging"), [(1, 0, 1), (4, 6, 2), (8, 3, 4)])
def test_no_tier_holds_more_than_its_blocks_and_the_buffers_on_the_way(device_blocks: int, host_blocks: int, staging: int):
    _, results = run(device_blocks=device_blocks, host_blocks=host_blocks, staging=staging, prefetch="next-n", in_flight=4)
    assert results["device_held_bytes"] <= (device_blocks + staging) * results["block_bytes"]
    assert results["host_held_bytes"] <= (host_blocks + staging) * results["block_bytes"]
    assert results["file_bytes"] == 24 * 4096


def test_smaller_tiers_give_their_memory_back():
    _, results = run(changes={100: {"device_blocks": 1, "host_blocks": 1, "staging": 1}}, device_blocks=10, host_blocks=10)
    assert results["device_held_bytes"] <= 2 * results["block_bytes"]
    assert results["host_held_bytes"] <= 2 * results["block_bytes"]


def test_a_prefetch_is_useful_or_wasted_or_not_looked_up_yet():
    _, results = run(prefetch="next-n", depth=2, pattern="zipf")
    left = results["prefetches"] - results["prefetches_useful"] - results["prefetches_wasted"]
    assert 0 <= left <= SMALL["device_blocks"]
    _, oracle = run(prefetch="oracle", depth=2)
    assert oracle["prefetches_wasted"] == 0 and oracle["device_found"] == 149


# ---- costs ---------------------------------------------------------------------------------------------------


def test_on_the_simulated_device_a_read_takes_what_the_knobs_say_of_the_disk_and_a_cached_one_nothing_more_than_memory():
    block = 32 * 8 * 4
    for cached, fixed_ns in ((False, 50_000 + round(block / 500e6 * 1e9)), (True, 0)):
        knobs = TiersKnobs.parse({**SMALL, "disk_latency_us": 50, "disk_mb_per_s": 500, "cached": cached})
        assert Tiered(knobs, "simulated").read(Step(0, knobs), 3, 0).cost == Cost(bytes=block, fixed_ns=fixed_ns)
    real = Tiered(knobs.changed(cached=False), "cpu")
    assert real.read(Step(0, knobs), 3, 0).cost.fixed_ns == 0
    real.close()


def test_a_lookup_needs_the_memory_of_all_blocks_that_the_device_may_hold():
    knobs = TiersKnobs.parse(SMALL)
    take, answer = Tiered(knobs, "simulated").look_up(Step(0, knobs), 3, Tier.HOST, 0, 0)
    assert take.cost.resident == (4 + 4) * 32 * 8 * 4
    assert (take.name, take.items, answer.items) == ("look up (host)", 0, 1)


# ---- what is said --------------------------------------------------------------------------------------------


def test_the_notes_say_how_large_the_table_is_and_where_blocks_were_found():
    knobs = TiersKnobs.parse(SMALL)
    workload = Tiered(knobs, "simulated")
    assert workload.notes()[0] == "a table of 24 KiB in 24 blocks of 1 KiB"
    assert "the disk is what the knobs say of it" in workload.notes()[-1]
    for tier, ns in ((Tier.DEVICE, 2000), (Tier.DEVICE, 4000), (Tier.DEVICE, 3000), (Tier.DISK, 90_000)):
        workload.tally.answered(0, Looked(0, 0, tier, False, False, 0, ns))
    assert workload.notes()[1:3] == [
        "75 % of the lookups found their block on the device, and took 3 µs on average",
        "25 % of the lookups found their block on disk, and took 90 µs on average",
    ]


def test_a_file_in_memory_is_said_to_be_no_disk(monkeypatch: pytest.MonkeyPatch):
    workload = Tiered(TiersKnobs.parse(SMALL), "cpu")
    monkeypatch.setattr(workload._file, "in_memory", lambda: True)
    assert "is a file system in memory: no disk was read" in workload.notes()[-1]
    workload.close()


def test_a_pattern_is_made_once_and_anew_when_it_is_turned():
    knobs = TiersKnobs.parse(SMALL)
    workload = Tiered(knobs, "simulated")
    first = workload.accesses(knobs)
    assert workload.accesses(knobs.changed(policy="clock")) is first
    assert workload.accesses(knobs.changed(skew=0.5)) is not first


def test_a_new_run_begins_its_counts_anew():
    workload = Tiered(TiersKnobs.parse(SMALL), "simulated")
    workload.tally.prefetched(0)
    workload.begin()
    assert workload.results()["prefetches"] == 0


# ---- wrong input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"device_blocks": 0}, "device_blocks"),
        ({"device_blocks": 1.5}, "device_blocks"),
        ({"host_blocks": -1}, "host_blocks"),
        ({"policy": "fifo"}, r"policy='fifo' is not allowed; allowed: lru \| lfu \| clock \| s3-fifo \| belady"),
        ({"host_policy": "same"}, "host_policy"),
        ({"promote_after": 0}, "promote_after"),
        ({"prefetch": "all"}, r"allowed: none \| next-n \| stride \| markov \| oracle"),
        ({"prefetch": 2}, "prefetch"),
        ({"depth": 0}, "depth"),
        ({"depth": 65}, "depth"),
        ({"prefetch_queue": 0}, "prefetch_queue"),
        ({"in_flight": 0}, "in_flight"),
        ({"staging": 0}, "staging"),
        ({"disk_threads": 0}, "disk_threads"),
        ({"pattern": "random"}, "pattern"),
        ({"pattern": "replay"}, "pattern='replay' without a file is not allowed; allowed: replay=FILE.csv"),
        ({"skew": -0.1}, "skew"),
        ({"skew": float("nan")}, "skew"),
        ({"loop_blocks": 0}, "loop_blocks"),
        ({"stride": 0}, "stride"),
        ({"scan_share": 1.01}, "scan_share"),
        ({"disk_mb_per_s": 0}, "disk_mb_per_s"),
        ({"disk_latency_us": -1}, "disk_latency_us"),
        ({"blocks": 0}, "blocks"),
        ({"rows": 0}, "rows"),
        ({"width": 0}, "width"),
        ({"taken": 0}, "taken"),
        ({"capacity": 5}, "there is no knob 'capacity'"),
    ],
)
def test_a_knob_that_cannot_be_is_refused_with_what_is_allowed(knobs: dict[str, Any], words: str):
    with pytest.raises(KnobError, match=words):
        TiersKnobs.parse(knobs)


def test_a_list_of_lookups_or_a_folder_that_cannot_be_used_is_refused_before_anything_runs(tmp_path: Path):
    lookups = tmp_path / "lookups.csv"
    lookups.write_text("block\n1\n512\n")
    with pytest.raises(DataError, match=r"row 3 is '512'; allowed: a block of the table, 0 to 511"):
        prepare(TiersKnobs.parse({"pattern": "replay", "replay": str(lookups)}), "simulated")
    with pytest.raises(DataError, match=r"nowhere.csv' cannot be read"):
        prepare(TiersKnobs.parse({"replay": str(tmp_path / "nowhere.csv")}), "simulated")
    with pytest.raises(DataError, match="cannot be written to /dev/nowhere"):
        prepare(TiersKnobs.parse({**SMALL, "folder": "/dev/nowhere"}), "cpu")


def test_a_table_that_is_damaged_while_it_is_used_ends_the_run_with_the_block():
    knobs = TiersKnobs.parse({**SMALL, "pattern": "scan"})
    workload, device = Tiered(knobs, "cpu"), CpuDevice()
    os.pwrite(workload._file._file.fileno(), b"xx", 7 * 4096)
    with pytest.raises(Exception, match="block 7 is not what was written") as raised:
        try:
            tiers(device, workload, [Step(index, knobs) for index in range(20)])
        except Exception as error:
            raise error.__cause__ or error from None
    assert isinstance(raised.value, DataError)
    device.close()
    workload.close()


# ---- on a GPU ------------------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("pinned", [True, False])
def test_on_a_gpu_what_is_looked_up_is_what_was_stored(pinned: bool):
    if not torch.cuda.is_available():
        pytest.skip("torch.cuda.is_available() is false: there is no CUDA GPU here")
    from labkit.device.cuda import CudaDevice

    knobs = TiersKnobs.parse({**SMALL, "pinned": pinned, "prefetch": "next-n", "in_flight": 3, "pattern": "mixture"})
    workload, device = Watched(knobs, "cuda:0"), CudaDevice(0, widths=widths(knobs))
    tiers(device, workload, [Step(index, knobs) for index in range(300)])
    assert device.close() == []
    check(workload.answers, knobs)
    on_cpu, _ = run(300, pinned=pinned, prefetch="next-n", in_flight=3, pattern="mixture")
    assert [looked.tier for looked, _ in workload.answers] == [looked.tier for looked, _ in on_cpu]
    workload.close()
