"""Pipelined training: load batches ahead of the step that trains on them.

`prefetch` batches are in the making while one is trained on; 0 is the synchronous program, in which every stage
waits for the one before it. The host takes a batch when it is loaded, as `next(loader)` does, and only then submits what
is done with it. What is in flight is so bounded, whatever the knobs do: at most prefetch + 1 loads and two steps.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from labkit.device.device import Device
from labkit.kernels.slots import Slot, Slots
from labkit.schedule import Handle, Status, Step
from labkit.workloads.workload import TrainingWorkload


class Loading(NamedTuple):
    """A batch in the making, and the buffers it is made in."""

    step: Step
    slot: Slot
    loaded: Handle


class Training(NamedTuple):
    """A step on its way: the op that completes it, and the one that brings its loss to the host."""

    step: Step
    done: Handle
    log: Handle | None


def pipeline(device: Device, workload: TrainingWorkload, steps: Iterable[Step]) -> None:
    """Train for as long as there are steps, with `step.knobs.prefetch` batches loaded ahead."""
    slots = Slots()
    loading: deque[Loading] = deque()
    running: deque[Training] = deque()
    depth = 0
    for step in steps:
        loading.append(_load(device, workload, slots, step))
        depth = step.knobs.prefetch
        while len(loading) > depth:
            running.append(_train(device, workload, slots, loading.popleft()))
            _finish_all_but(min(1, depth), device, workload, running)
    while loading:
        running.append(_train(device, workload, slots, loading.popleft()))
        _finish_all_but(min(1, depth), device, workload, running)
    _finish_all_but(0, device, workload, running)


def _load(device: Device, workload: TrainingWorkload, slots: Slots, step: Step) -> Loading:
    slot = slots.take()
    return Loading(step, slot, device.submit(workload.load(step, slot.number), after=slot.copied))


def _train(device: Device, workload: TrainingWorkload, slots: Slots, batch: Loading) -> Training:
    step, slot, loaded = batch
    device.wait([loaded])
    copied = images = device.submit(workload.copy(step, slot.number), loaded, after=slot.read)
    for op in workload.prepare(step):
        images = device.submit(op, images)
    loss = device.submit(workload.forward(step), images)
    gradients = device.submit(workload.backward(step), loss)
    done = device.submit(workload.update(step), gradients)
    slots.give_back(slot, copied, gradients)
    log = device.submit(workload.log(step), loss) if _logs(step) else None
    if log is not None and step.knobs.log_sync:
        _read_loss(device, workload, step, log)
        log = None
    return Training(step, done, log)


def _finish_all_but(count: int, device: Device, workload: TrainingWorkload, running: deque[Training]) -> None:
    """Wait for the oldest steps until no more than `count` are on their way."""
    while len(running) > count:
        training = running.popleft()
        device.wait([training.done])
        if training.log is not None:
            _read_loss(device, workload, training.step, training.log)


def _read_loss(device: Device, workload: TrainingWorkload, step: Step, log: Handle) -> None:
    if device.wait([log]) and log.status is not Status.CANCELLED:  # there is nothing to read: the run ends
        workload.logged(step, log)


def _logs(step: Step) -> bool:
    every = step.knobs.log_every
    return every > 0 and step.index % every == 0
