"""A pile of layers whose weights come from host memory or disk: read, (unpack on the host,) copy, (unpack on the device,) compute.

The batch is the same in every pass, so the results of any two settings can be held against each other: bit for bit where the weights
are float32. On the cpu device the "device" buffers are other memory of the same machine: copies are copies, reads are reads.
"""

import hashlib
from typing import Any

import numpy as np
import torch
from torch.func import functional_call
from torch.nn import functional

from labkit.errors import DataError
from labkit.schedule import Cost, Handle, Lane, Op, Step
from labkit.units import format_bytes
from labkit.workloads.buffers import Buffers
from labkit.workloads.footprint import footprint
from labkit.workloads.layer_store import DiskStore, HostStore
from labkit.workloads.layered_models import BYTES, layer_of
from labkit.workloads.packed_layer import PackedLayer
from labkit.workloads.workload import Workload

DISK, WORKERS, H2D, COMPUTE, D2H = Lane("disk"), Lane("workers"), Lane("h2d"), Lane("compute"), Lane("d2h")
BATCHES = Lane("h2d", 1)
"""The batch has a copy stream of its own: behind weights that were asked for ahead, it would wait for all of them."""
TOKENS = 64
REFERENCE_ROWS = 4


class Offloaded(Workload):
    """A `LayeredWorkload`.

    knobs  the cold ones: model, layers, width, weights, source, pinned, seed; where, the device it will run on: "cpu", "cuda:0", "simulated"
    text   bytes of a text, uint8 [n], for the decoder
    """

    def __init__(self, knobs: Any, where: str, text: np.ndarray):
        super().__init__()
        self.layers = knobs.layers
        self._knobs, self._text, self._real = knobs, text, where != "simulated"
        self._device = torch.device(where if self._real else "meta")
        with torch.device("meta"):
            self._form = layer_of(knobs.model, knobs.width, 0, 0)
        shapes = {name: tuple(value.shape) for name, value in self._form.named_parameters()}
        self._whole = PackedLayer(shapes, "fp32")
        self._packed = self._whole if knobs.weights == "fp32" else PackedLayer(shapes, knobs.weights)
        self._costs: dict[int, Cost] = {}
        self._batches: dict[int, torch.Tensor] = {}
        self._strayed: float | None = None
        self._cost(knobs)  # counted now, not while a pass is timed
        if self._real:
            self._set_up()
        self.begin()

    def begin(self) -> None:
        """A new run starts: every layer is checked when it is read."""
        super().begin()
        self._passes, self._result = 0, b""
        if self._real:
            self._store.begin()

    def keeps(self, knobs: Any) -> frozenset[int]:
        """As many layers as the budget allows, from the front, from the back, or spread evenly."""
        count = int(knobs.device_budget * self.layers + 1e-9)
        if knobs.keep == "first":
            return frozenset(range(count))
        if knobs.keep == "last":
            return frozenset(range(self.layers - count, self.layers))
        return frozenset(place * self.layers // count for place in range(count))

    # ---- ops ----------------------------------------------------------------------------------------------

    def enter(self, step: Step) -> Op:
        """The batch comes to the device: rows of numbers, or of text."""
        size = self._rows(step.knobs.batch_size) * self._knobs.width * 4
        there = self._batch(step.knobs.batch_size) if self._real else None
        return self.op("enter", BATCHES, lambda: there.to(self._device, non_blocking=True, copy=True), Cost(bytes=size), step)

    def fetch(self, step: Step, layer: int, place: int) -> list[Op]:
        """Read from disk where they lie there, unpack on a worker where that is asked for, copy."""
        format_, ops = self._brought(step.knobs), []
        if self._knobs.source == "disk":
            ops.append(self._read(step, layer, place))
        if format_ is not self._packed:
            ops.append(self._unpack_on_host(step, layer, place))
        pinned = self._knobs.pinned
        target = self._device_buffers.on_device(place, (format_.nbytes,), torch.uint8) if self._real else None

        def copy(*read: torch.Tensor) -> torch.Tensor:
            source = read[0] if read else self._store.there(layer)
            return target.copy_(source, non_blocking=pinned)

        cost = Cost(bytes=format_.nbytes, pageable=not pinned)
        return [*ops, self.op("copy", H2D, copy, cost, step, blocking=not pinned and self._device.type == "cuda")]

    def compute(self, step: Step, layer: int, place: int, brought: Any) -> list[Op]:
        """Unpack on the device where they came packed, and the layer itself."""
        ops = []
        if self._brought(brought) is not self._whole:
            ops.append(self.op("unpack", COMPUTE, self._unpack_on_device, self._unpacking, step))

        def forward(hidden: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
            with torch.inference_mode():
                return functional_call(self._form, self._whole.views(weights), hidden)

        return [*ops, self.op("layer", COMPUTE, forward, self._cost(step.knobs), step)]

    def leave(self, step: Step) -> Op:
        """The result comes to the host."""
        rows = self._rows(step.knobs.batch_size)
        return self.op("result", D2H, _to_host, Cost(bytes=rows * self._knobs.width * 4), step, items=rows)

    def left(self, step: Step, result: Handle) -> None:
        """Its digest is kept: two settings that compute the same have the same."""
        self._passes += 1
        if isinstance(result.value, np.ndarray):
            self._result = hashlib.sha256(result.value.tobytes()).digest()

    def drop(self, place: int) -> None:
        """Let go of its memory."""
        if self._real:
            self._device_buffers.drop(place)
            self._host_buffers.drop(2 * place)
            self._host_buffers.drop(2 * place + 1)

    # ---- what is said of a run ----------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """What the model is, and how large."""
        size, packed = self._whole.nbytes * self.layers, self._packed.nbytes * self.layers
        compressed = f", {format_bytes(packed)} packed ({packed / size:.3f} of it)" if packed != size else ""
        notes = [f"random weights: {format_bytes(size)} in {self.layers} layers{compressed}"]
        if self._knobs.source == "disk" and not self._real:
            notes.append("no disk is simulated: reads take as long as from host memory, as where the system keeps the whole file there")
        return notes

    def results(self) -> dict[str, Any]:
        """Digest of the result, sizes, memory held, and how far compressed weights lead from the model's own result."""
        told: dict[str, Any] = {"passes": self._passes, "result_sha256": self._result.hex(), "layer_bytes": self._packed.nbytes}
        if self._real:
            told |= {"held_bytes": self._device_buffers.held_bytes() + self._host_buffers.held_bytes(), "cosine_to_fp32": self._strayed}
        return told

    def close(self) -> None:
        """Close the file, or let go of the memory."""
        if self._real:
            self._store.close()

    # ---- parts --------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        knobs, device = self._knobs, self._device
        self._form = layer_of(knobs.model, knobs.width, knobs.seed, 0).to(device)
        pinned = knobs.pinned and device.type == "cuda"
        if knobs.source == "disk":
            self._store: Any = DiskStore(self.layers, self._packed.nbytes, self._pack)
        else:
            self._store = HostStore(self.layers, self._packed.nbytes, self._pack, pinned)
        self._device_buffers, self._host_buffers = Buffers(device), Buffers(device)
        self._scratch = torch.empty(self._whole.nbytes if self._packed is not self._whole else 0, dtype=torch.uint8, device=device)
        if knobs.weights != "fp32":
            self._strayed = self._similarity()

    def _pack(self, layer: int) -> torch.Tensor:
        made = layer_of(self._knobs.model, self._knobs.width, self._knobs.seed, layer)
        return self._packed.packed(dict(made.named_parameters()))

    def _brought(self, knobs: Any) -> PackedLayer:
        """The form in which weights cross the link under these knobs."""
        return self._whole if self._knobs.weights == "fp32" or knobs.dequant_on == "cpu" else self._packed

    def _read(self, step: Step, layer: int, place: int) -> Op:
        cached = step.knobs.cached
        into = self._host_buffers.host(2 * place, (self._packed.nbytes,), torch.uint8, self._knobs.pinned) if self._real else None
        return self.op("read", DISK, lambda: self._store.read(layer, into, cached), Cost(bytes=self._packed.nbytes), step)

    def _unpack_on_host(self, step: Step, layer: int, place: int) -> Op:
        into = self._host_buffers.host(2 * place + 1, (self._whole.nbytes,), torch.uint8, self._knobs.pinned) if self._real else None

        def unpack(*read: torch.Tensor) -> torch.Tensor:
            return self._packed.unpack(read[0] if read else self._store.there(layer), self._whole, into)

        return self.op("unpack on the host", WORKERS, unpack, self._unpacking, step)

    def _unpack_on_device(self, packed: torch.Tensor) -> torch.Tensor:
        return self._packed.unpack(packed, self._whole, self._scratch)

    @property
    def _unpacking(self) -> Cost:
        return Cost(bytes=self._packed.nbytes + self._whole.nbytes, launches=len(self._whole.parts))

    def _rows(self, batch_size: int) -> int:
        return batch_size * (TOKENS if self._knobs.model == "decoder" else 1)

    def _batch(self, batch_size: int) -> torch.Tensor:
        """The batch on the host, made once: float32 [N, width], or [N, TOKENS, width] of a text's bytes; pinned where a GPU wants that."""
        if batch_size not in self._batches:
            made = self._made_batch(batch_size)
            self._batches = {batch_size: made.pin_memory() if self._device.type == "cuda" else made}
        return self._batches[batch_size]

    def _made_batch(self, batch_size: int) -> torch.Tensor:
        width, generator = self._knobs.width, torch.Generator().manual_seed(self._knobs.seed)
        if self._knobs.model == "mlp":
            return torch.randn(batch_size, width, generator=generator)
        vectors = torch.randn(BYTES, width, generator=generator)
        places = (np.arange(TOKENS)[None] + 4099 * np.arange(batch_size)[:, None]) % len(self._text)
        return vectors[torch.from_numpy(self._text[places].astype(np.int64))]

    def _cost(self, knobs: Any) -> Cost:
        """Of a layer on a batch, counted on meta tensors, once for each size."""
        if knobs.batch_size not in self._costs:
            with torch.device("meta"):
                form = layer_of(self._knobs.model, self._knobs.width, 0, 0)
                shape = (knobs.batch_size, TOKENS, self._knobs.width) if self._knobs.model == "decoder" else (knobs.batch_size, self._knobs.width)
                hidden = torch.empty(shape)
            with torch.no_grad():
                self._costs[knobs.batch_size], _ = footprint(lambda: form(hidden))
        unpacked = self._whole.nbytes if self._brought(knobs) is not self._whole else 0
        held = (len(self.keeps(knobs)) + knobs.slots) * self._brought(knobs).nbytes + unpacked
        return self._costs[knobs.batch_size]._replace(resident=held)

    def _similarity(self) -> float:
        """Mean cosine similarity of the results with compressed weights and with the model's own, over a few rows."""
        own = packed = self._made_batch(REFERENCE_ROWS).to(self._device)
        data = torch.empty(self._packed.nbytes, dtype=torch.uint8)
        for layer in range(self.layers):
            weights = layer_of(self._knobs.model, self._knobs.width, self._knobs.seed, layer).to(self._device)
            source = self._store.read(layer, data, True) if self._knobs.source == "disk" else self._store.there(layer)
            with torch.inference_mode():
                own = weights(own)
                unpacked = self._packed.unpack(source.to(self._device), self._whole, self._scratch)
                packed = functional_call(self._form, self._whole.views(unpacked), packed)
        return float(functional.cosine_similarity(own.flatten(1), packed.flatten(1), dim=1).mean())


def _to_host(hidden: torch.Tensor) -> np.ndarray:
    return hidden.cpu().numpy()


def checked_text(data: bytes, name: str) -> np.ndarray:
    """The bytes of a text for the decoder, uint8. Raises DataError where there are too few."""
    if len(data) < TOKENS:
        raise DataError(f"{name} has {len(data)} bytes; at least {TOKENS} are needed")
    return np.frombuffer(data, np.uint8)
