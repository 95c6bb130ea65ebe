"""How many cores this process may use: affinity and the container's quota, never the host's core count."""

import os
import sys
from pathlib import Path

CGROUP_V2 = Path("/sys/fs/cgroup/cpu.max")
CGROUP_V1 = Path("/sys/fs/cgroup/cpu")


def affinity_cores() -> int:
    """Cores that the scheduler may put this process on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1


def quota_cores() -> float | None:
    """Cores' worth of time that a container's quota allows, None where there is no quota."""
    try:
        quota, period = CGROUP_V2.read_text().split()[:2]
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass
    try:
        quota_us = int((CGROUP_V1 / "cpu.cfs_quota_us").read_text())
        period_us = int((CGROUP_V1 / "cpu.cfs_period_us").read_text())
        return quota_us / period_us if quota_us > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def available_cores() -> int:
    """Whole cores that this process may use, at least 1."""
    quota = quota_cores()
    cores = affinity_cores()
    return cores if quota is None else max(min(cores, int(quota)), 1)


def share_torch_cores(cores: int) -> None:
    """Let torch use this many cores for what the calling thread computes; nothing where torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.get_num_threads()  # a thread that has not asked yet would later take what another thread has set last
        torch.set_num_threads(cores)
