"""Probes of the cpu device itself: what its verbs cost on the host, and how fast its copy lanes are.

The overheads are measured on the device as experiments use it: a submit, the start of an op on an idle lane, and the
host's way back from a wait. A copy lane of the cpu device is one thread that copies.
"""

import time
from contextlib import closing
from statistics import median
from time import perf_counter_ns

from labkit.device.device import Device
from labkit.device.open import Opening, open_device
from labkit.runner.probe import LEAST, Probe, median_ns, one_torch_thread, per_second
from labkit.schedule import Lane, Op
from labkit.trace.recorder import Row
from labkit.units import seconds_to_ns

WORKERS = Lane("workers")
NAP_S = 0.0002
COPY_BYTES = 16 << 20
SLOTS = 4


def device_probes() -> list[Probe]:
    """The overheads of the cpu device."""
    return [Probe("submitting and waiting", "ops that sleep 0.2 ms, one at a time, on a worker lane of the cpu device", overheads)]


def copy_probes() -> list[Probe]:
    """The copy lanes of the cpu device."""
    ring = f"torch copies {COPY_BYTES >> 20} MiB on one thread, {SLOTS} buffers in turn; bytes copied count"
    return [Probe("copying", ring, copies), Probe("a copy of nothing", "torch copies 4 bytes", latency)]


def overheads(seconds: float) -> dict[str, float]:
    """Submit, dispatch and wake on an idle lane of the cpu device."""
    with closing(open_device("cpu", Opening(widths={"workers": 1}))) as device:
        return overheads_on(device, Op("nap", WORKERS, lambda: time.sleep(NAP_S)), seconds)


def overheads_on(device: Device, nap: Op, seconds: float) -> dict[str, float]:
    """The medians over ops that are submitted when nothing else runs, and waited for at once."""
    submits, wakes, ids = [], [], set()
    _submit_and_wait(device, nap)
    end_ns = perf_counter_ns() + seconds_to_ns(seconds)
    while len(submits) < 4 * LEAST or perf_counter_ns() < end_ns:
        begun_ns = device.now()
        handle = device.submit(nap)
        submits.append(device.now() - begun_ns)
        device.wait([handle])
        wakes.append(device.now() - handle.end_ns)
        ids.add(handle.id)
    rows = [Row(*row) for row in device.recorder.rows if row[0] in ids]
    return {
        "submit_ns": median(submits),
        "wake_ns": median(wakes),
        "dispatch_ns": median(row.start_ns - row.queued_ns for row in rows),
    }


def copies(seconds: float) -> dict[str, float]:
    """Bytes that one thread copies in a second: in memory there is one rate, whichever way, pinned or not."""
    import torch

    sources = [torch.ones(COPY_BYTES, dtype=torch.uint8) for _ in range(SLOTS)]
    targets = [torch.zeros(COPY_BYTES, dtype=torch.uint8) for _ in range(SLOTS)]

    def copy_each() -> None:
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)

    with one_torch_thread():
        rate = per_second(SLOTS * COPY_BYTES, copy_each, seconds)
    return dict.fromkeys(("link_h2d_bytes_per_s", "link_d2h_bytes_per_s", "link_pageable_bytes_per_s"), rate)


def latency(seconds: float) -> dict[str, float]:
    """What a copy costs before the first byte."""
    import torch

    source, target = torch.ones(1), torch.zeros(1)

    def copy_often() -> None:
        for _ in range(200):
            target.copy_(source)

    with one_torch_thread():
        return {"link_latency_ns": median_ns(copy_often, seconds / 10) / 200}


def _submit_and_wait(device: Device, op: Op) -> None:
    device.wait([device.submit(op)])
