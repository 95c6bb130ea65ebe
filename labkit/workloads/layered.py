"""What an offloading kernel asks of its workload: layers of equal form, whose weights can be brought to the device one by one."""

from collections.abc import Sequence
from typing import Any, Protocol

from labkit.schedule import Handle, Op, Step


class LayeredWorkload(Protocol):
    """Layers 0 to `layers` − 1. A *place* is a buffer for the weights of one layer, on the host and on the device; the kernel says which."""

    layers: int

    def keeps(self, knobs: Any) -> frozenset[int]:
        """The layers whose weights stay on the device."""
        ...

    def enter(self, step: Step) -> Op:
        """The batch, on the device."""
        ...

    def fetch(self, step: Step, layer: int, place: int) -> Sequence[Op]:
        """Bring a layer's weights into a place: what is done on the host side of it, none to a few ops, and the copy."""
        ...

    def compute(self, step: Step, layer: int, place: int, brought: Any) -> Sequence[Op]:
        """What is done with the weights in a place first, none to a few ops, each fed by the one before, and the layer itself, of (hidden,
        weights). `brought` are the knobs under which they were fetched."""
        ...

    def leave(self, step: Step) -> Op:
        """Bring the result to the host; completes the step's items."""
        ...

    def left(self, step: Step, result: Handle) -> None:
        """The host has the result."""
        ...

    def drop(self, place: int) -> None:
        """Nobody will use this place any more, once what was submitted has ended."""
        ...
