"""Counts over the lookups of a run: where blocks were found, how long lookups took, what was moved, what prefetching was good for.

Counted from the end of the warm-up; what a warm-up step moves is not counted, whenever it ends.
"""

from array import array
from typing import Any

import numpy as np

from labkit.workloads.blocks import Looked, Tier

KEPT = 1 << 20
"""Latencies that are kept for each tier: the latest."""
NEEDED = {50: 1, 99: 100}
"""Lookups that a percentile needs."""


class Latencies:
    """How long lookups took that found their block in one tier, in ns."""

    def __init__(self) -> None:
        self.count = self.total_ns = 0
        self.kept = array("q")

    def add(self, ns: int) -> None:
        """One more."""
        if self.count < KEPT:
            self.kept.append(ns)
        else:
            self.kept[self.count % KEPT] = ns
        self.count += 1
        self.total_ns += ns


class LookupTally:
    """Running counts. Steps before `first_step` are warm-up."""

    def __init__(self, block_bytes: int, first_step: int = 0):
        self._block_bytes, self._first_step = block_bytes, first_step
        self._latencies = {tier: Latencies() for tier in Tier}
        self._moved = {"read": 0, "promote": 0, "demote": 0}
        self._on_its_way = self._prefetches = self._useful = self._wasted = 0

    def answered(self, step: int, looked: Looked) -> None:
        """A lookup has its answer."""
        if step >= self._first_step:
            self._latencies[looked.tier].add(looked.done_ns - looked.issued_ns)
            self._on_its_way += looked.on_its_way
            self._useful += looked.foreseen

    def moved(self, step: int, how: str) -> None:
        """A block is read, promoted or demoted."""
        self._moved[how] += step >= self._first_step

    def prefetched(self, step: int) -> None:
        """A block comes that nobody has asked for yet."""
        self._prefetches += step >= self._first_step

    def wasted(self, step: int) -> None:
        """A block that was prefetched goes, and nobody asked for it."""
        self._wasted += step >= self._first_step

    @property
    def lookups(self) -> int:
        """All of them."""
        return sum(latencies.count for latencies in self._latencies.values())

    def share(self, tier: Tier) -> float | None:
        """Lookups that found their block there, of all; None where there were none."""
        return self._latencies[tier].count / self.lookups if self.lookups else None

    def mean_ns(self, tier: Tier) -> float | None:
        """The mean latency of lookups that found their block there."""
        latencies = self._latencies[tier]
        return latencies.total_ns / latencies.count if latencies.count else None

    def results(self) -> dict[str, Any]:
        """All of it as plain data. Percentiles of too few lookups are None."""
        told: dict[str, Any] = {"lookups": self.lookups}
        for tier in Tier:
            name = tier.name.lower()
            told |= {f"{name}_found": self._latencies[tier].count, f"{name}_share": self.share(tier), f"{name}_latency_mean_ns": self.mean_ns(tier)}
            told |= _percentiles(f"{name}_latency", self._latencies[tier].kept)
        total_ns = sum(latencies.total_ns for latencies in self._latencies.values())
        told["latency_mean_ns"] = total_ns / self.lookups if self.lookups else None
        told |= _percentiles("latency", np.concatenate([np.asarray(latencies.kept, np.int64) for latencies in self._latencies.values()]))
        return told | self._traffic()

    def _traffic(self) -> dict[str, Any]:
        bytes_ = {how: count * self._block_bytes for how, count in self._moved.items()}
        return {
            "read_bytes": bytes_["read"], "promoted_bytes": bytes_["promote"], "demoted_bytes": bytes_["demote"],
            "blocks_read": self._moved["read"], "blocks_promoted": self._moved["promote"], "blocks_demoted": self._moved["demote"],
            "found_on_its_way": self._on_its_way,
            "prefetches": self._prefetches, "prefetches_useful": self._useful, "prefetches_wasted": self._wasted,
        }  # fmt: skip


def _percentiles(name: str, kept: Any) -> dict[str, float | None]:
    enough = {percent: len(kept) >= needed for percent, needed in NEEDED.items()}
    return {f"{name}_p{percent}_ns": float(np.percentile(kept, percent)) if enough[percent] else None for percent in NEEDED}
