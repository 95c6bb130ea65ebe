"""FLOP, bytes and launches of torch work, against sums done by hand. A multiply-add is two FLOP."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from labkit.schedule import Cost
from labkit.workloads.footprint import footprint, training_state_bytes
from labkit.workloads.models import WIDTHS
from labkit.workloads.vision import _training_footprints


def meta(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.empty(shape, device="meta", requires_grad=grad)


def conv_flop(batch: int, channels_in: int, channels_out: int, side_out: int, kernel: int) -> int:
    return 2 * batch * channels_out * side_out**2 * channels_in * kernel**2


# ---- single operators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "stride", "padding", "side_out"), [(3, 1, 1, 8), (3, 2, 1, 4), (1, 2, 0, 4), (5, 1, 0, 4)])
def test_a_convolution_forward(kernel: int, stride: int, padding: int, side_out: int):
    images, weights = meta(2, 3, 8, 8), meta(5, 3, kernel, kernel)
    cost, out = footprint(lambda: F.conv2d(images, weights, stride=stride, padding=padding))
    assert out.shape == (2, 5, side_out, side_out)
    assert cost.flop == conv_flop(2, 3, 5, side_out, kernel)
    assert cost.bytes == 4 * (2 * 3 * 64 + 5 * 3 * kernel**2 + 2 * 5 * side_out**2)
    assert cost.launches == 1


@pytest.mark.parametrize(("inner", "times"), [(True, 2), (False, 1)])
def test_a_convolution_backward_is_twice_its_forward_or_once_where_nobody_asks_for_the_images_gradient(inner: bool, times: int):
    images, weights = meta(2, 3, 8, 8, grad=inner), meta(5, 3, 3, 3, grad=True)
    forward, out = footprint(lambda: F.conv2d(images, weights, padding=1))
    gradient = meta(*out.shape)
    backward, _ = footprint(lambda: out.backward(gradient))
    assert forward.flop == conv_flop(2, 3, 5, 8, 3) == 34_560
    assert backward.flop == times * forward.flop


def test_a_linear_layer_forward_and_backward():
    rows, weights, bias = meta(7, 4, grad=True), meta(6, 4, grad=True), meta(6, grad=True)
    forward, out = footprint(lambda: F.linear(rows, weights, bias))
    gradient = meta(7, 6)
    backward, _ = footprint(lambda: out.backward(gradient))
    assert forward.flop == 2 * 7 * 4 * 6
    assert backward.flop == 2 * forward.flop
    assert forward.bytes == 4 * (7 * 4 + 6 * 4 + 6 + 7 * 6)


@pytest.mark.parametrize(
    ("work", "bytes", "launches"),
    [
        (lambda x, y: x + y, 4 * 300, 1),
        (lambda x, y: x.add_(y), 4 * 300, 1),
        (lambda x, y: torch.relu(x), 4 * 200, 1),
        (lambda x, y: (x + y) * 2, 4 * 500, 2),
        (lambda x, y: torch._foreach_mul_([x, y], 2.0), 4 * 400, 1),
        (lambda x, y: torch._foreach_add_([x], [y]), 4 * 300, 1),
        (lambda x, y: torch._foreach_zero_([x]), 4 * 200, 1),
        (lambda x, y: x.view(10, 10).t()[3:], 0, 1),
        (lambda x, y: torch.empty_like(x), 0, 1),
        (lambda x, y: None, 0, 1),
    ],
    ids=["add", "add in place", "relu", "two", "foreach mul", "foreach add", "foreach zero", "views", "empty", "nothing"],
)
def test_bytes_are_what_is_read_and_written_and_launches_what_does_work(work: Callable[..., Any], bytes: int, launches: int):
    x, y = meta(100), meta(100)
    cost, _ = footprint(lambda: work(x, y))
    assert cost == Cost(flop=0, bytes=bytes, launches=launches)


def test_the_marks_of_the_profiler_are_no_launches():
    def work() -> torch.Tensor:
        with torch.profiler.record_function("mine"):
            return x + 1

    x = meta(100)
    assert footprint(work)[0].launches == 1


def test_the_result_of_the_work_comes_back():
    assert footprint(lambda: "result")[1] == "result"


def test_nothing_is_computed():
    huge = meta(1 << 20, 1 << 20)
    assert footprint(lambda: huge @ huge)[0].flop == 2 * 2**60


# ---- the training step -----------------------------------------------------------------------------------------


def halved(side: int) -> int:
    return (side + 1) // 2


def forward_flop(model: str, batch: int, side: int, classes: int) -> tuple[int, int]:
    """FLOP of a forward pass, and of its stem alone, by hand."""
    widths = WIDTHS[model]
    side = halved(side)
    stem = conv_flop(batch, 3, widths[0], side, 3)
    total = stem
    for before, after in zip(widths, (*widths[1:], widths[-1]), strict=True):
        side = halved(side)
        total += conv_flop(batch, before, after, side, 3) + conv_flop(batch, after, after, side, 3)
        total += conv_flop(batch, before, after, side, 1)
    return total + 2 * batch * widths[-1] * classes, stem


@pytest.mark.parametrize(("model", "batch", "side", "classes"), [("small", 4, 32, 8), ("small", 3, 33, 5), ("large", 2, 48, 8)])
def test_the_flop_of_a_training_step(model: str, batch: int, side: int, classes: int):
    costs = _training_footprints(model, classes, batch, side)
    forward, stem = forward_flop(model, batch, side, classes)
    assert costs["forward", batch].flop == forward
    assert costs["backward", batch].flop == 2 * forward - stem, "nobody asks for the gradient of the images"
    assert costs["update", batch].flop == 0


def test_the_flop_of_the_small_model_in_one_number():
    assert _training_footprints("small", 8, 4, 32)["forward", 4].flop == 18_059_264


def test_an_update_reads_and_writes_the_weights_the_momenta_and_the_gradients():
    """The momenta are scaled (2 passes) and added to (3), the weights are added to (3), the gradients are cleared (2)."""
    update = _training_footprints("small", 8, 4, 32)["update", 4]
    assert update.bytes == 4 * 151_112 * (2 + 3 + 3 + 2)
    assert update.launches == 4


def test_the_cost_of_a_step_grows_with_its_batch_and_the_launches_do_not():
    four, eight, twelve = ({stage: cost for (stage, _), cost in _training_footprints("small", 8, batch, 32).items()} for batch in (4, 8, 12))
    for stage in ("forward", "backward"):
        assert eight[stage].flop == 2 * four[stage].flop
        assert twelve[stage].bytes - eight[stage].bytes == eight[stage].bytes - four[stage].bytes > 0
        assert four[stage].launches == eight[stage].launches
    assert four["update"] == eight["update"]


def test_training_holds_weights_gradients_momenta_and_what_autograd_keeps():
    """A linear layer of 3 × 5 on a batch of 2: autograd keeps its input; the weights are there anyway."""
    with torch.device("meta"):
        model = torch.nn.Linear(3, 5, bias=False)
        inputs_BC = torch.empty(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    forward, output = footprint(lambda: model(inputs_BC).sum())
    assert forward.resident == 4 * 2 * 3
    output.backward()
    optimizer.step()
    assert training_state_bytes(model, optimizer) == 4 * 3 * 5 * 3


def test_what_is_kept_twice_counts_once():
    with torch.device("meta"):
        values = torch.empty(100, requires_grad=True) * 1.0
    forward, _ = footprint(lambda: (values * values).sum())
    assert forward.resident == 4 * 100


def test_a_larger_batch_needs_more_memory_and_the_update_does_not():
    four, eight = (_training_footprints("small", 8, batch, 32) for batch in (4, 8))
    state = four["update", 4].resident
    statistics = 2_608  # of batch normalisation: means, variances and counters
    assert state == eight["update", 8].resident == 4 * 151_112 * 3 + statistics
    assert eight["forward", 8].resident - state == pytest.approx(2 * (four["forward", 4].resident - state), rel=0.02)
