"""The shipped classifiers: logits of the right shape for any image, and the smallest batch that they can normalise."""

import pytest
import torch

from labkit.errors import KnobError
from labkit.experiments.pipeline import PipelineKnobs
from labkit.workloads.models import WIDTHS, ResidualBlock, ResidualCNN


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("side", [16, 32, 33, 96])
@pytest.mark.parametrize("classes", [1, 8])
def test_images_become_one_row_of_logits_each(size: str, side: int, classes: int):
    logits = ResidualCNN(size, classes)(torch.zeros(2, 3, side, side))
    assert logits.shape == (2, classes) and logits.dtype == torch.float32
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize(("side", "halved"), [(2, 1), (7, 4), (8, 4)])
def test_a_block_halves_the_image_rounded_up(side: int, halved: int):
    assert ResidualBlock(4, 6)(torch.zeros(2, 4, side, side)).shape == (2, 6, halved, halved)


def parameters_by_hand(widths: tuple[int, ...], classes: int) -> int:
    total = 3 * widths[0] * 9 + widths[0]
    for before, after in zip(widths, (*widths[1:], widths[-1]), strict=True):
        total += before * after * 9 + after * after * 9 + before * after + 2 * 2 * after
    return total + widths[-1] * classes + classes


@pytest.mark.parametrize(("size", "count"), [("small", 151_112), ("large", 2_455_176)])
def test_the_number_of_weights(size: str, count: int):
    counted = sum(parameter.numel() for parameter in ResidualCNN(size, 8).parameters())
    assert counted == parameters_by_hand(WIDTHS[size], 8) == count


def test_every_weight_has_a_gradient_after_one_step():
    model = ResidualCNN("small", 8)
    torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 32, 32)), torch.tensor([1, 2])).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("side", [16, 17, 32, 33, 48])
def test_the_knobs_refuse_exactly_the_batches_of_one_that_the_model_cannot_normalise(size: str, side: int):
    def refused() -> bool:
        try:
            PipelineKnobs.parse({"batch_size": 1, "image_size": side, "model": size})
        except KnobError:
            return True
        return False

    def fails() -> bool:
        try:
            ResidualCNN(size, 8)(torch.zeros(1, 3, side, side))
        except ValueError:
            return True
        return False

    assert refused() == fails()
