"""The CPU's clock, as Linux tells it: how fast the fastest core runs, as a share of the highest that it can.

An idle core is slow on purpose, so the fastest one is taken; whether any was busy is for the reader to know.
"""

import os
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")

NO_CLOCKS = "the system does not tell the clocks of its cores (no cpufreq)"


def usable_cpus() -> list[int]:
    """The numbers of the cores that this process may run on."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return list(range(os.cpu_count() or 1))


def clock_share(cpus: list[int]) -> float | None:
    """The clock of the fastest of these cores now ÷ its highest; None where it cannot be read."""
    shares = [share for cpu in cpus if (share := _share(CPUS / f"cpu{cpu}" / "cpufreq")) is not None]
    return max(shares, default=None)


def _share(folder: Path) -> float | None:
    try:
        now, highest = (int((folder / name).read_text()) for name in ("scaling_cur_freq", "cpuinfo_max_freq"))
    except (OSError, ValueError):
        return None
    return now / highest if highest > 0 and now > 0 else None
