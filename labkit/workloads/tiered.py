"""An embedding table in blocks of rows: a file on disk, some blocks in host memory, some on the device. A lookup takes rows out of one block.

Every answer is checked against what was stored, bit for bit, by a checksum made when the table was. On the cpu device the "device" buffers are
other memory of the same machine: copies are copies, reads are reads. The simulated device has no disk of its own: the knobs say what it does.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labkit.errors import DataError
from labkit.schedule import Cost, Handle, Lane, Op, Step
from labkit.units import NS_PER_S, NS_PER_US, format_bytes, format_percent, format_time
from labkit.workloads.accesses import Accesses, accesses_of
from labkit.workloads.block_file import BlockFile
from labkit.workloads.blocks import Looked, Tier
from labkit.workloads.buffers import Buffers
from labkit.workloads.lookup_tally import LookupTally
from labkit.workloads.workload import Workload

DISK, H2D, COMPUTE, D2H = Lane("disk"), Lane("h2d"), Lane("compute"), Lane("d2h")
FROM_DISK = Lane("h2d", 1)
"""Copies of blocks that are read first: in one lane with the others, those would wait for the disk."""
ANSWERS = Lane("d2h", 1)
"""Answers have a copy stream of their own: behind the blocks that leave, they would wait for all of them."""
FOUND = {Tier.DEVICE: "look up (device)", Tier.HOST: "look up (host)", Tier.DISK: "look up (disk)"}
WHERE = {Tier.DEVICE: "on the device", Tier.HOST: "in host memory", Tier.DISK: "on disk"}


class Tiered(Workload):
    """A `BlockWorkload`.

    knobs     the cold ones: blocks, rows, width, taken, pinned, folder, seed; where, the device it will run on: "cpu", "cuda:0", "simulated"
    replayed  the lookups of pattern=replay, block numbers
    """

    def __init__(self, knobs: Any, where: str, replayed: Sequence[int] = ()):
        super().__init__()
        self._knobs, self._replayed, self._real = knobs, replayed, where != "simulated"
        self._device = torch.device(where if self._real else "meta")
        self._taken = min(knobs.taken, knobs.rows)
        self.block_bytes = knobs.rows * knobs.width * 4
        self._answer_bytes = self._taken * knobs.width * 4
        self._pattern: tuple[Any, ...] = ()
        self._sums: list[int] = []
        if self._real:
            self._set_up()
        self.begin()

    def begin(self) -> None:
        """A new run starts: every block is checked when it is read."""
        super().begin()
        self.tally = LookupTally(self.block_bytes)
        if self._real:
            self._file.begin()

    def count_from(self, step_index: int) -> None:
        """What belongs to earlier steps is warm-up."""
        self.tally = LookupTally(self.block_bytes, step_index)

    def accesses(self, knobs: Any) -> Accesses:
        """The sequence, made when its knobs are turned."""
        pattern = (knobs.pattern, knobs.skew, knobs.loop_blocks, knobs.stride, knobs.shuffled, knobs.scan_share)
        if pattern != self._pattern:
            self._accesses, self._pattern = accesses_of(knobs, self._replayed), pattern
        return self._accesses

    # ---- ops ----------------------------------------------------------------------------------------------

    def read(self, step: Step, block: int, place: int) -> Op:
        """Read it from the file; on the simulated device it takes what the knobs say of the disk."""
        self.tally.moved(step.index, "read")
        cached, fixed_ns = step.knobs.cached, 0
        into = memoryview(self._in_host(place).numpy()).cast("B") if self._real else None
        if not self._real and not cached:
            knobs = step.knobs
            fixed_ns = round(knobs.disk_latency_us * NS_PER_US + self.block_bytes / (knobs.disk_mb_per_s * 1e6) * NS_PER_S)
        return self.op("read", DISK, lambda: self._file.read(block, into, cached), Cost(bytes=self.block_bytes, fixed_ns=fixed_ns), step)

    def promote(self, step: Step, block: int, source: Tier, host_place: int, place: int) -> Op:
        """Copy it over the link."""
        self.tally.moved(step.index, "promote")
        return self._copy("promote", FROM_DISK if source is Tier.DISK else H2D, step, *self._both(host_place, place))

    def demote(self, step: Step, block: int, place: int, host_place: int) -> Op:
        """Copy it back over the link."""
        self.tally.moved(step.index, "demote")
        source, target = self._both(host_place, place)
        return self._copy("demote", D2H, step, target, source)

    def look_up(self, step: Step, block: int, tier: Tier, place: int, desk: int) -> list[Op]:
        """Take the rows, bring them to the host."""
        if self._real:
            data, rows = self._on_device(place), self._rows
            taken = self._desks.on_device(desk, (self._taken, self._knobs.width), torch.float32)
            there = self._desks.host(desk, (self._taken, self._knobs.width), torch.float32, True)

        def take() -> torch.Tensor:
            return torch.index_select(data, 0, rows, out=taken)

        def bring(found: torch.Tensor) -> torch.Tensor:
            return there.copy_(found, non_blocking=True)

        held = (step.knobs.device_blocks + step.knobs.staging) * self.block_bytes
        return [
            self.op(FOUND[tier], COMPUTE, take, Cost(bytes=2 * self._answer_bytes, resident=held), step),
            self.op("answer", ANSWERS, bring, Cost(bytes=self._answer_bytes), step, items=1),
        ]

    # ---- what the kernel tells ----------------------------------------------------------------------------

    def prefetched(self, step: Step, block: int) -> None:
        """Counted."""
        self.tally.prefetched(step.index)

    def wasted(self, step: Step, block: int) -> None:
        """Counted."""
        self.tally.wasted(step.index)

    def answered(self, step: Step, looked: Looked, answer: Handle) -> None:
        """Check the rows and count the lookup. Raises DataError where they are not what was stored."""
        rows = answer.value
        if self._real and zlib.crc32(rows.numpy()) != self._sums[looked.block]:
            raise DataError(f"lookup {looked.lookup} of block {looked.block}, {WHERE[looked.tier]}, is not what was stored: its checksum differs")
        self.tally.answered(step.index, looked)

    def drop(self, tier: Tier, place: int) -> None:
        """Let go of its memory."""
        if self._real:
            (self._device_buffers if tier is Tier.DEVICE else self._host_buffers).drop(place)

    # ---- what is said of a run ----------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """How large the table is, where its blocks were found, and how long that took."""
        size = self.block_bytes * self._knobs.blocks
        notes = [f"a table of {format_bytes(size)} in {self._knobs.blocks} blocks of {format_bytes(self.block_bytes)}"]
        for tier in Tier:
            if (share := self.tally.share(tier)) is not None and (mean_ns := self.tally.mean_ns(tier)) is not None:
                notes.append(f"{format_percent(share)} of the lookups found their block {WHERE[tier]}, and took {format_time(mean_ns)} on average")
        if self._real and self._file.in_memory():
            notes.append(f"{self._file.folder} is a file system in memory: no disk was read; for a disk, name a folder on one")
        if not self._real:
            notes.append("the disk is what the knobs say of it: no machine's file tells of its disk")
        return notes

    def results(self) -> dict[str, Any]:
        """The counts, and the memory that each tier holds."""
        told = {**self.tally.results(), "block_bytes": self.block_bytes}
        if self._real:
            held = {"device_held_bytes": self._device_buffers.held_bytes(), "host_held_bytes": self._host_buffers.held_bytes()}
            told |= {**held, "file_bytes": self._file.size}
        return told

    def close(self) -> None:
        """Close the file."""
        if self._real:
            self._file.close()

    # ---- parts --------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        knobs = self._knobs
        rows = np.random.default_rng(knobs.seed).permutation(knobs.rows)[: self._taken]

        def made(block: int) -> np.ndarray:
            values = np.random.default_rng((knobs.seed, block)).random((knobs.rows, knobs.width), np.float32)
            self._sums.append(zlib.crc32(values[rows]))
            return values.reshape(-1).view(np.uint8)

        self._file = BlockFile(knobs.blocks, self.block_bytes, made, knobs.folder)
        self._rows = torch.from_numpy(rows).to(self._device)
        self._device_buffers, self._host_buffers, self._desks = Buffers(self._device), Buffers(self._device), Buffers(self._device)

    def _on_device(self, place: int) -> torch.Tensor:
        return self._device_buffers.on_device(place, (self._knobs.rows, self._knobs.width), torch.float32)

    def _in_host(self, place: int) -> torch.Tensor:
        return self._host_buffers.host(place, (self._knobs.rows, self._knobs.width), torch.float32, self._knobs.pinned)

    def _both(self, host_place: int, place: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        return (self._in_host(host_place), self._on_device(place)) if self._real else (None, None)

    def _copy(self, name: str, lane: Lane, step: Step, source: Any, target: Any) -> Op:
        pinned = self._knobs.pinned
        cost = Cost(bytes=self.block_bytes, pageable=not pinned)
        blocking = not pinned and self._device.type == "cuda"
        return self.op(name, lane, lambda: target.copy_(source, non_blocking=pinned), cost, step, blocking=blocking)
