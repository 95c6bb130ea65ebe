"""Knobs of loading ahead, copying and reading the loss: declared once, for every experiment whose kernel is the pipeline."""

from typing import Any, Literal

from labkit.knobs import knob

CopyStream = Literal["own", "compute"]
Loader = Literal["threads", "inline", "processes"]

_NO_LINK = "host and device memory are the same here"

PREFETCH: Any = knob(2, "batches loaded ahead of the step; 0 is the synchronous program", unit="batches", ge=0, le=64)
WORKERS: Any = knob(1, "loader threads, or loader processes", unit="workers", ge=1, le=64, cold_when={"loader": "processes"})
PINNED: Any = knob(True, "load into pinned host memory", inert={"cpu": f"pinned memory cannot act on cpu: {_NO_LINK}"})
NON_BLOCKING: Any = knob(True, "the copy does not hold the host")
COPY_STREAM: Any = knob("own", "the lane that copies to the device: its own, or compute's")
LOG_EVERY: Any = knob(1, "steps between readings of the loss; 0 never reads it", unit="steps", ge=0, le=1_000_000)
LOG_SYNC: Any = knob(False, "reading the loss holds the host at once")
LOADER: Any = knob("threads", "who loads: worker threads, the host itself, or the processes of a torch DataLoader", live=False)

PRESETS: dict[str, dict[str, Any]] = {
    "naive": {"prefetch": 0, "loader": "inline", "pinned": False, "non_blocking": False, "log_sync": True},
    "overlapped": {"prefetch": 4},
}


def widths(knobs: Any) -> dict[str, int]:
    """Loaders are the only lane with more than one unit: threads that load, or that each wait for a process of their own."""
    return {"workers": knobs.workers}
