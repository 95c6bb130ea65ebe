"""Layer by layer through a model that does not fit: weights come to the device just in time, into a few buffers that are used again.

Some layers stay on the device; the others are fetched anew in every pass, `prefetch` layers ahead of the one that computes. A fetch may begin
when the layer `prefetch` + 1 places before has been computed: with prefetch 0 that is the one just before, and nothing overlaps. The host says
all of this beforehand, as dependencies, and is at most two passes ahead. (Streaming weights through a device: S. Rajbhandari et al.,
"ZeRO-Infinity", SC 2021; Y. Sheng et al., "FlexGen", ICML 2023.)
"""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from labkit.device.device import Device
from labkit.kernels.slots import Slot
from labkit.schedule import Handle, Status, Step
from labkit.workloads.layered import LayeredWorkload

PASSES_AHEAD = 1


class Fetched(NamedTuple):
    """A layer whose weights are on their way, or there: where, the op that brings them, and the knobs that said in which form."""

    layer: int
    place: Slot
    arrived: Handle
    knobs: Any


def offload(device: Device, workload: LayeredWorkload, steps: Iterable[Step]) -> None:
    """Pass batches through the layers for as long as there are steps."""
    streaming = Streaming(device, workload)
    running: deque[tuple[Step, Handle]] = deque()
    for step in steps:
        if streaming.has_too_much(step):
            _finish_all_but(0, device, workload, running)  # so that nobody uses what is let go of
            streaming.let_go(step)
        running.append((step, streaming.run(step)))
        _finish_all_but(PASSES_AHEAD, device, workload, running)
    _finish_all_but(0, device, workload, running)


def _finish_all_but(count: int, device: Device, workload: LayeredWorkload, running: deque[tuple[Step, Handle]]) -> None:
    """Wait for the oldest passes until no more than `count` are on their way."""
    while len(running) > count:
        step, result = running.popleft()
        if device.wait([result]) and result.status is not Status.CANCELLED:
            workload.left(step, result)


class Streaming:
    """What lies on the device and what is on its way to it, between two layers. Positions count layers over all passes."""

    def __init__(self, device: Device, workload: LayeredWorkload):
        self._device, self._workload = device, workload
        self._kept: dict[int, Fetched] = {}
        self._coming: deque[Fetched] = deque()
        self._free: deque[Slot] = deque()
        self._made = self._places = 0
        self._position = self._reached = -1
        self._computed: tuple[Handle, ...] = ()

    def run(self, step: Step) -> Handle:
        """One batch through all layers; the op that brings its result to the host."""
        keeps = self._workload.keeps(step.knobs)
        hidden = self._device.submit(self._workload.enter(step))
        for layer in range(self._workload.layers):
            self._position += 1
            here = self._here(step, layer, keeps)
            self._fetch_ahead(step, keeps)
            hidden = self._compute(step, here, hidden)
            if layer not in self._kept:
                self._free.append(here.place)
        return self._device.submit(self._workload.leave(step), hidden)

    def has_too_much(self, step: Step) -> bool:
        """Whether layers lie on the device that shall not stay, or more buffers than there shall be."""
        return bool(self._kept.keys() - self._workload.keeps(step.knobs)) or (self._places > step.knobs.slots and bool(self._free))

    def let_go(self, step: Step) -> None:
        """Drop those. Nothing that was submitted may still use them."""
        for layer in self._kept.keys() - self._workload.keeps(step.knobs):
            self._workload.drop(self._kept.pop(layer).place.number)
        while self._places > step.knobs.slots and self._free:
            self._workload.drop(self._free.pop().number)
            self._places -= 1

    # ---- fetching -----------------------------------------------------------------------------------------

    def _here(self, step: Step, layer: int, keeps: frozenset[int]) -> Fetched:
        """The weights of the layer whose turn it is: those that stay, those that were fetched ahead, or fetched now."""
        if layer in self._kept:
            return self._kept[layer]
        if self._coming and self._coming[0].layer == layer:
            return self._coming.popleft()
        if layer in keeps:
            self._kept[layer] = self._fetch(step, layer, Slot(layer))
            return self._kept[layer]
        return self._fetch(step, layer, self._take())

    def _fetch_ahead(self, step: Step, keeps: frozenset[int]) -> None:
        """Fetch what comes after the layer whose turn it is, as far as `prefetch` and the buffers reach, into the next pass if need be."""
        ahead = min(step.knobs.prefetch, step.knobs.slots - 1)
        for position in range(max(self._reached, self._position) + 1, self._position + ahead + 1):
            layer = position % self._workload.layers
            if layer not in keeps and len(self._coming) < ahead:
                self._coming.append(self._fetch(step, layer, self._take()))
            self._reached = position

    def _fetch(self, step: Step, layer: int, place: Slot) -> Fetched:
        """Bring a layer's weights into a place, once whoever used the place before is done, and the layer before the present one is computed."""
        *host_side, copy = self._workload.fetch(step, layer, place.number)
        weights: Handle | None = None
        for op in host_side:
            weights = self._device.submit(op, *self._said(weights), after=(*place.copied, *self._computed))
        arrived = self._device.submit(copy, *self._said(weights), after=(*place.read, *self._computed))
        place.copied = place.read = (arrived,)
        return Fetched(layer, place, arrived, step.knobs)

    @staticmethod
    def _said(weights: Handle | None) -> tuple[Handle, ...]:
        return () if weights is None else (weights,)

    # ---- places -------------------------------------------------------------------------------------------

    def _take(self) -> Slot:
        """The place that has been free the longest, or a new one. Places that stay with a layer have its number, the others come after."""
        if self._free:
            return self._free.popleft()
        self._made += 1
        self._places += 1
        return Slot(self._workload.layers + self._made - 1)

    # ---- computing ----------------------------------------------------------------------------------------

    def _compute(self, step: Step, here: Fetched, hidden: Handle) -> Handle:
        *prepare, forward = self._workload.compute(step, here.layer, here.place.number, here.knobs)
        weights = here.arrived
        for op in prepare:
            weights = self._device.submit(op, weights)
        done = self._device.submit(forward, hidden, weights)
        here.place.read = (done,)
        self._computed = (done,)
        return done
