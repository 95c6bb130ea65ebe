"""Where a result comes from: the machine, the software and the moment. Absent is None, never invented."""

import os
import platform
import subprocess
import sys
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("labkit", "torch", "numpy", "pillow", "pandas", "plotly", "ipykernel")


def provenance(now: datetime) -> dict[str, Any]:
    """Plain data about this machine and software, for a record made at `now`."""
    return {**_lasting(), "time": now.isoformat(timespec="seconds"), "pid": os.getpid()}


@cache
def _lasting() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cpu_count": os.cpu_count(),
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in _PACKAGES},
        "revision": _revision(),
    }


def cpu_model() -> str | None:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The git revision of the checkout that labkit runs from, with "+" where it was changed."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
