"""Offload: a model that does not fit, run layer by layer. What hides the transfer of its weights, and what makes them smaller worth?"""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from labkit.data.locate import datasets_root
from labkit.errors import DataError
from labkit.experiments.experiment import Experiment
from labkit.kernels.offload import offload
from labkit.knobs import Knobs, knob

_NO_LINK = "pinned memory cannot act on cpu: host and device memory are the same here"


class OffloadKnobs(Knobs):
    """The knobs of offloading. Live ones act on the next pass; cold ones restart the worker."""

    device_budget: float = knob(0.25, "share of the layers that stay on the device", ge=0, le=1)
    keep: Literal["first", "last", "interleaved"] = knob("interleaved", "which layers stay")
    prefetch: int = knob(1, "layers fetched ahead of the one that computes; 0 is the sequential program", unit="layers", ge=0, le=64)
    slots: int = knob(3, "buffers for layers that come and go; they bound prefetch to one less", unit="buffers", ge=1, le=65)
    dequant_on: Literal["cpu", "gpu"] = knob("gpu", "where int8 weights become float32: before they cross the link, or after")
    cached: bool = knob(True, "reads from disk may come from what the system keeps in memory")
    batch_size: int = knob(8, "rows of a pass (mlp), or texts of 64 tokens (decoder)", unit="rows", ge=1, le=65_536)
    workers: int = knob(1, "threads that unpack on the host", unit="workers", ge=1, le=64)
    weights: Literal["fp32", "int8"] = knob("fp32", "how weights are stored and brought: as they are, or a byte each with a scale for each channel", live=False)
    source: Literal["host", "disk"] = knob("host", "where weights lie that are not on the device", live=False)
    pinned: bool = knob(True, "hold them in pinned host memory", live=False, inert={"cpu": _NO_LINK})
    model: Literal["mlp", "decoder"] = knob("mlp", "a deep MLP, or a decoder that reads real text", live=False)
    layers: int = knob(12, "layers of the model", unit="layers", ge=1, le=1000, live=False)
    width: int = knob(512, "width of a layer; its weights grow with the square", ge=64, le=16_384, live=False)
    seed: int = knob(0, "of the weights and the batch", ge=0, le=2**31, live=False)
    data: str | None = knob(None, "a text file for the decoder; none: the one that labkit ships", live=False)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        """A decoder's heads are 64 wide."""
        if self.width % 64:
            raise ValueError(f"width={self.width} is no multiple of 64; allowed: 64, 128, 192, …")
        return self


def prepare(knobs: OffloadKnobs, where: str) -> Any:
    """The workload for one set of cold knobs. Raises DataError where the text cannot be used, or the weights find no room."""
    from labkit.workloads.offloaded import Offloaded, checked_text

    file = datasets_root() / "text" / "sentences.txt" if knobs.data is None else Path(knobs.data).expanduser()
    if knobs.model != "decoder":
        return Offloaded(knobs, where, checked_text(b" " * 64, "nothing"))
    try:
        return Offloaded(knobs, where, checked_text(file.read_bytes(), str(file)))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from error


def widths(knobs: Any) -> dict[str, int]:
    """Threads that unpack are the only lane with more than one unit."""
    return {"workers": knobs.workers}


EXPERIMENT = Experiment(
    name="offload",
    question="What hides the transfer of weights that do not fit on the device, and what is it worth to make them smaller?",
    knobs=OffloadKnobs,
    kernel=offload,
    prepare=prepare,
    widths=widths,
    presets={
        "sequential": {"prefetch": 0, "device_budget": 0.0},
        "streamed": {"prefetch": 2, "slots": 4, "device_budget": 0.0},
        "all on the device": {"device_budget": 1.0},
    },
)
