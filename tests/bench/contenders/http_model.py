"""The model of a known cost that the servers over HTTP serve: the same computation as `labkit/workloads/fixed_cost.py`."""

import os
from typing import NamedTuple

from labkit.workloads.fixed_cost import compute_for

VARIABLE = "BENCH_HTTP_MODEL"


class HttpModel(NamedTuple):
    """What a batch takes, how large it may be, and how long its first request waits for others."""

    batch_ms: float
    item_ms: float
    max_batch: int
    delay_ms: int

    def as_text(self) -> str:
        """For the environment of a server."""
        return " ".join(map(str, self))


def _from_environment() -> HttpModel:
    batch_ms, item_ms, max_batch, delay_ms = os.environ.get(VARIABLE, "5 1 8 1").split()
    return HttpModel(float(batch_ms), float(item_ms), int(max_batch), int(delay_ms))


MODEL = _from_environment()


def answer(requests: list[dict]) -> list[dict]:
    """Compute for as long as those that are no echoes take; each is told how many shared the batch."""
    count = sum(not request["echo"] for request in requests)
    if count:
        compute_for(round((MODEL.batch_ms + MODEL.item_ms * count) * 1e6))
    return [{"shared": len(requests)}] * len(requests)
