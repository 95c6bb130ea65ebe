"""A CPU quota at work: how often the kernel held the processes of a container back because their time was spent.

The counters are of cgroups, version 2 or 1: `nr_periods` counts the periods (100 ms as a rule) in which somebody ran, `nr_throttled` those
in which the quota did not last. They are read for the own group and for those above it: a quota may be set at any of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")

NO_COUNTERS = "no cgroup here counts the periods of a CPU quota"
NO_QUOTA = "no CPU quota was in force"


@dataclass(frozen=True, slots=True)
class QuotaCounts:
    """Of one group since it was made: periods in which it ran, and those in which it was held back."""

    periods: int
    held_back: int


def quota_files() -> list[Path]:
    """The `cpu.stat` of the own group and of those above it, as far as they can be seen; [] where there is none."""
    found: dict[Path, None] = {}
    for top, group in _own_groups():
        folder = top / group.lstrip("/")
        while folder != top.parent:
            if (folder / "cpu.stat").is_file():
                found[folder / "cpu.stat"] = None
            folder = folder.parent
    return list(found)


def read_quota(files: Sequence[Path]) -> list[QuotaCounts]:
    """What each file counts now; zeros for one without a quota. Raises OSError, ValueError."""
    counts = []
    for file in files:
        fields = dict(line.split()[:2] for line in file.read_text().splitlines() if line.strip())
        counts.append(QuotaCounts(int(fields.get("nr_periods", 0)), int(fields.get("nr_throttled", 0))))
    return counts


def held_back_share(before: Sequence[QuotaCounts], after: Sequence[QuotaCounts]) -> float | None:
    """Share of the periods in between in which the group that was held back most was; None where no quota was in force."""
    shares = []
    for earlier, later in zip(before, after, strict=True):
        periods = later.periods - earlier.periods
        if periods > 0:
            shares.append(min(max(later.held_back - earlier.held_back, 0) / periods, 1.0))
    return max(shares, default=None)


def _own_groups() -> list[tuple[Path, str]]:
    """(mount point, own group below it) of every hierarchy that may count CPU time."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return []
    groups = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:  # version 2
            groups += [(CGROUPS, group), (CGROUPS / "unified", group)]
        elif "cpu" in controllers.split(","):
            groups += [(CGROUPS / "cpu", group), (CGROUPS / controllers, group)]
    return groups
