"""Pipelined training: what does loading ahead of the step gain, and on which side should the preparation run?"""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from labkit.data.locate import datasets_root
from labkit.errors import DataError
from labkit.experiments.experiment import Experiment
from labkit.experiments.loading import (
    COPY_STREAM,
    LOADER,
    LOG_EVERY,
    LOG_SYNC,
    NON_BLOCKING,
    PINNED,
    PREFETCH,
    PRESETS,
    WORKERS,
    CopyStream,
    Loader,
    widths,
)
from labkit.kernels.pipeline import pipeline
from labkit.knobs import Knobs, knob

_SMALLEST_OF_ONE = {"small": 17, "large": 33}  # below, the last block halves an image to one pixel


class PipelineKnobs(Knobs):
    """The knobs of pipelined training. Live ones act on the next step; cold ones restart the worker, and so does `workers`
    where processes load: their number is fixed while they live.

    On the cpu device "gpu" is the compute thread, which stands where a GPU would. A loss that does not hold the host is read
    when its step has ended.
    """

    prefetch: int = PREFETCH
    workers: int = WORKERS
    batch_size: int = knob(16, "images in a step", unit="images", ge=1, le=4096)
    augment_on: Literal["cpu", "gpu"] = knob("cpu", "where images are cropped and flipped")
    normalise_on: Literal["cpu", "gpu"] = knob("cpu", "where bytes become floats")
    pinned: bool = PINNED
    non_blocking: bool = NON_BLOCKING
    copy_stream: CopyStream = COPY_STREAM
    log_every: int = LOG_EVERY
    log_sync: bool = LOG_SYNC
    loader: Loader = LOADER
    image_size: int = knob(96, "side of the square images that are trained on", unit="pixels", ge=16, le=1024, live=False)
    model: Literal["small", "large"] = knob("small", "the residual CNN", live=False)
    seed: int = knob(0, "of the order, the crops and the weights", ge=0, le=2**31, live=False)
    data: str | None = knob(None, "a folder of images in class sub-folders; none: the photos that labkit ships", live=False)

    @model_validator(mode="after")
    def _has_something_to_normalise(self) -> Self:
        """Batch normalisation needs more than one value a channel."""
        least = _SMALLEST_OF_ONE[self.model]
        if self.batch_size == 1 and self.image_size < least:
            raise ValueError(
                f"batch_size=1 with image_size={self.image_size} leaves the {self.model} model one value a channel, too "
                f"few for batch normalisation; allowed: batch_size of 2 or more, or image_size of {least} or more"
            )
        return self


def prepare(knobs: PipelineKnobs, where: str) -> Any:
    """The workload for one set of cold knobs. Raises DataError where the data cannot be used."""
    from labkit.data.photos import Photos
    from labkit.workloads.vision import VisionTraining

    folder = datasets_root() / "photos" if knobs.data is None else _folder(knobs.data)
    return VisionTraining(Photos.open(folder), knobs, where)


def _folder(text: str) -> Path:
    if not text.strip():
        raise DataError("data='' is not allowed: name a folder of images in class sub-folders")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise DataError(f"data={text!r} is not a folder here: {error}") from error


EXPERIMENT = Experiment(
    name="pipeline",
    question="What does loading ahead of the training step gain, and on which side should the preparation run?",
    knobs=PipelineKnobs,
    kernel=pipeline,
    prepare=prepare,
    widths=widths,
    presets={
        **PRESETS,
        "GPU preprocessing": {"prefetch": 4, "augment_on": "gpu", "normalise_on": "gpu"},
    },
)
