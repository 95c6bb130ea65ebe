"""The shipped photos at a tiny size, and the ops of a step run by hand in the order in which a kernel submits them."""

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.data import Photos, datasets_root
from labkit.experiments.pipeline import PipelineKnobs
from labkit.schedule import Handle, Op, Status, Step
from labkit.workloads.vision import VisionTraining

SHIPPED = datasets_root() / "photos"
PLACEMENTS = list(product(["cpu", "gpu"], ["cpu", "gpu"]))


def knobs_of(**knobs: Any) -> PipelineKnobs:
    return PipelineKnobs.parse({"image_size": 32, "batch_size": 4, **knobs})


def ops_of(workload: VisionTraining, step: Step, slot: int = 0) -> list[Op]:
    """Every op of a step, in the order in which a kernel asks for them."""
    return [
        workload.load(step, slot), workload.copy(step, slot), *workload.prepare(step),
        workload.forward(step), workload.backward(step), workload.update(step), workload.log(step),
    ]  # fmt: skip


def prepared(workload: VisionTraining, step: Step, slot: int = 0) -> Any:
    """The batch of a step as forward receives it."""
    value = workload.load(step, slot).run()
    for op in [workload.copy(step, slot), *workload.prepare(step)]:
        value = op.run(value)
    batch, crops = value
    assert crops is None
    return batch


def train(workload: VisionTraining, step: Step, slot: int = 0) -> float:
    """Run a step by hand; its loss."""
    batch = prepared(workload, step, slot)
    loss = workload.forward(step).run((batch, None))
    workload.update(step).run(workload.backward(step).run(loss))
    log = Handle(step.index, "log")
    log._value, log.status, log.seen = workload.log(step).run(loss), Status.OK, True
    workload.logged(step, log)
    return float(log.value)


def losses(workload: VisionTraining, count: int, knobs: PipelineKnobs) -> list[float]:
    return [train(workload, Step(index, knobs), slot=index % 2) for index in range(count)]


@pytest.fixture(scope="session")
def photos() -> Photos:
    """The photos that labkit ships."""
    return Photos.open(SHIPPED)


@pytest.fixture
def few_photos(tmp_path: Path) -> Path:
    """A folder of two classes, three photos each, that a test may damage."""
    for name in ("cat", "rocket"):
        (tmp_path / "few" / name).mkdir(parents=True)
        for path in sorted((SHIPPED / name).glob("*.jpg"))[:3]:
            shutil.copy(path, tmp_path / "few" / name)
    return tmp_path / "few"


@pytest.fixture(scope="session")
def hand() -> SimpleNamespace:
    """What is above, for the tests."""
    return SimpleNamespace(knobs=knobs_of, ops=ops_of, prepared=prepared, train=train, losses=losses, placements=PLACEMENTS)


@pytest.fixture
def make(photos: Photos) -> Callable[..., VisionTraining]:
    """A workload over the shipped photos."""
    return lambda where="cpu", **knobs: VisionTraining(photos, knobs_of(**knobs), where)
