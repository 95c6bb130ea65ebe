"""Cache tiers: a table that fits neither on the device nor in host memory. Which policy keeps the right blocks near, and which prefetcher foresees them?"""

from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from labkit.experiments.experiment import Experiment
from labkit.kernels.eviction import PolicyName
from labkit.kernels.prefetching import PrefetcherName
from labkit.kernels.tiers import tiers
from labkit.knobs import Knobs, knob
from labkit.workloads.accesses import Pattern

_NO_LINK = "pinned memory cannot act on cpu: host and device memory are the same here"
_REAL_DISK = "the disk is a real one here"


class TiersKnobs(Knobs):
    """The knobs of lookups in tiers. Live ones act on the next lookup; cold ones restart the worker."""

    device_blocks: int = knob(64, "blocks that device memory may hold", unit="blocks", ge=1, le=1_000_000)
    host_blocks: int = knob(128, "blocks that host memory may hold beside them; 0 is no such tier", unit="blocks", ge=0, le=1_000_000)
    policy: PolicyName = knob("lru", "who leaves the device; belady knows the future, and is the bound")
    host_policy: PolicyName = knob("lru", "who leaves host memory")
    promote_after: int = knob(1, "lookups of a block in host memory before another one leaves the device for it; 1 is at once", unit="lookups", ge=1, le=1000)
    prefetch: PrefetcherName = knob("none", "who guesses what is looked up next; the oracle knows, and is the bound")
    depth: int = knob(2, "blocks that are foreseen; at most one less than the device may hold", unit="blocks", ge=1, le=64)
    prefetch_queue: int = knob(16, "prefetches that may be on their way; beyond, lookups wait for the oldest", unit="blocks", ge=1, le=1024)
    in_flight: int = knob(1, "lookups that are on their way at once", unit="lookups", ge=1, le=64)
    staging: int = knob(4, "buffers on each side beyond what the tiers hold, for blocks on their way", unit="buffers", ge=1, le=1024)
    cached: bool = knob(False, "reads from disk may come from what the system keeps in memory")
    disk_threads: int = knob(2, "reads from disk at once", unit="threads", ge=1, le=64)
    pattern: Pattern = knob("zipf", "what is looked up: few blocks often, all in turn, a part of them over and over, Zipf with scans in between, or a recorded list")
    skew: float = knob(1.0, "Zipf's exponent: 0 is all alike, 1 a few much more often than the rest", ge=0, le=4)
    loop_blocks: int = knob(96, "blocks of a loop", unit="blocks", ge=1, le=1_000_000)
    stride: int = knob(1, "distance of one lookup of a scan or a loop from the one before", unit="blocks", ge=1, le=1_000_000)
    shuffled: bool = knob(False, "scan and loop go through the table in a fixed random order, which only who learns it foresees")
    scan_share: float = knob(0.3, "share of a mixture's lookups that belong to its scan", ge=0, le=1)
    disk_latency_us: float = knob(
        100.0, "what a read takes before its first byte, on the simulated device", unit="µs", ge=0, le=1_000_000, inert={"cpu": _REAL_DISK, "cuda": _REAL_DISK},
    )  # fmt: skip
    disk_mb_per_s: float = knob(
        2000.0, "what each disk thread reads, on the simulated device", unit="MB/s", ge=0.1, le=1_000_000, inert={"cpu": _REAL_DISK, "cuda": _REAL_DISK},
    )  # fmt: skip
    blocks: int = knob(512, "blocks of the table, all of them on disk", unit="blocks", ge=1, le=1_000_000, live=False)
    rows: int = knob(512, "rows of a block", unit="rows", ge=1, le=65_536, live=False)
    width: int = knob(64, "float32 values of a row", ge=1, le=16_384, live=False)
    taken: int = knob(16, "rows that a lookup takes out of its block; at most all", unit="rows", ge=1, le=65_536, live=False)
    pinned: bool = knob(True, "hold blocks in pinned host memory", live=False, inert={"cpu": _NO_LINK})
    replay: str | None = knob(None, "a CSV file of block numbers, for the pattern replay", live=False)
    folder: str | None = knob(None, "where the table's file is made; none: where temporary files are", live=False)
    seed: int = knob(0, "of the table and the lookups", ge=0, le=2**31, live=False)

    @model_validator(mode="after")
    def _has_its_list(self) -> Self:
        """A replay needs something to replay."""
        if self.pattern == "replay" and self.replay is None:
            raise ValueError("pattern='replay' without a file is not allowed; allowed: replay=FILE.csv, a block number a row, or another pattern")
        return self


def prepare(knobs: TiersKnobs, where: str) -> Any:
    """The workload for one set of cold knobs. Raises DataError where the list of lookups cannot be used, or the table finds no room."""
    from labkit.data.block_trace import read_blocks
    from labkit.workloads.tiered import Tiered

    replayed = [] if knobs.replay is None else read_blocks(Path(knobs.replay).expanduser(), knobs.blocks)
    return Tiered(knobs, where, replayed)


def widths(knobs: Any) -> dict[str, int]:
    """Threads that read from disk are the only lane with more than one unit."""
    return {"disk": knobs.disk_threads}


EXPERIMENT = Experiment(
    name="tiers",
    question="Which blocks should lie on the device and in host memory, who should leave for whom, and what does it gain to fetch ahead?",
    knobs=TiersKnobs,
    kernel=tiers,
    prepare=prepare,
    widths=widths,
    presets={
        "no tier in between": {"host_blocks": 0},
        "the bound": {"policy": "belady", "host_policy": "belady"},
        "all foreseen": {"prefetch": "oracle", "depth": 4},
        "a loop that does not fit": {"pattern": "loop"},
    },
)
