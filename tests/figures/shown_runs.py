"""Runs to draw, made on the virtual clock: a small pipeline of known op times, shown as measured or as predicted."""

from collections import deque
from typing import Any

from labkit.device.machine import Machine
from labkit.device.simulated import SimulatedDevice
from labkit.figures import Shown
from labkit.metrics.summary import summarize
from labkit.schedule import Cost, Lane, Op, Status
from labkit.trace import KIND_OP, Recorder, Trace

WARMUP = 4
ITEMS = 32


def pipeline_trace(
    prefetch: int, steps: int, load_us: int = 9, train_us: int = 6, toggle_at: tuple[int, ...] = ()
) -> Trace:
    """load → forward → update on two workers and one compute lane, `prefetch` batches ahead; 0 until the first toggle,
    and again from every second one on."""
    device = SimulatedDevice(Machine("toy", "toy", "cpu", {}), widths={"workers": 2})
    loading: deque[tuple[int, Any]] = deque()
    running: deque[Any] = deque()

    def train() -> None:
        step, loaded = loading.popleft()
        forward = device.submit(_op("forward", "compute", 1000 * train_us // 3, step), loaded)
        running.append(device.submit(_op("update", "compute", 2000 * train_us // 3, step, ITEMS), forward))

    depth = 0 if toggle_at else prefetch
    for step in range(steps):
        if step in toggle_at:
            device.recorder.mark(device.now(), step, "prefetch", depth, prefetch - depth)
            depth = prefetch - depth
        loading.append((step, device.submit(_op("load", "workers", 1000 * load_us, step))))
        while len(loading) > depth:
            train()
        while len(running) > min(1, depth):
            device.wait([running.popleft()])
    while loading:
        train()
    while running:
        device.wait([running.popleft()])
    device.close()
    return device.recorder.finish(device.now())


def shown(
    label: str,
    prefetch: int = 2,
    steps: int = 40,
    measured: bool = True,
    device: str = "CPU threads",
    train_us: int = 6,
    predicts: str | None = None,
    toggle_at: tuple[int, ...] = (),
) -> Shown:
    """A run of that pipeline, ready to draw."""
    trace = pipeline_trace(prefetch, steps, train_us=train_us, toggle_at=toggle_at)
    trace.meta["measured"] = measured
    return Shown(label, device, measured, summarize(trace, warmup_steps=WARMUP), trace, predicts)


def shown_of_trace(
    trace: Trace, label: str = "A", measured: bool = True, device: str = "CPU threads"
) -> Shown:
    """Any trace, ready to draw."""
    return Shown(label, device, measured, summarize(trace), trace)


def dense_trace(slices: int, length_ns: int = 600, gap_ns: int = 400) -> Trace:
    """One compute lane with this many slices, each `length_ns` long and followed by a gap: a busy share of 60 %."""
    recorder = Recorder()
    recorder.open_unit("host", 0, 0)
    recorder.open_unit("compute", 0, 0)
    for place in range(slices):
        start = place * (length_ns + gap_ns)
        recorder.append(
            (
                place,
                KIND_OP,
                "step",
                "compute",
                0,
                place,
                1,
                start,
                start,
                start,
                start + length_ns,
                0,
                0,
                -1,
                Status.OK,
                (),
            )
        )
    return recorder.finish(slices * (length_ns + gap_ns))


def _op(name: str, lane: str, ns: int, step: int, items: int = 0) -> Op:
    return Op(name, Lane(lane), lambda *_: None, Cost(fixed_ns=ns), step, items)
