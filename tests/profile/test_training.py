"""FLOP and bytes of a training step against figures worked out by hand: norms, softmax, losses, pooling, embeddings, optimizers; and whole steps."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from labkit.errors import ExperimentError
from labkit.profile import OpProfile, TaskProfile, profile
from labkit.profile.formulas import flop_of
from tests.profile.test_profile import F32, Block, Decoder, op

I64 = 8


class Weighted(nn.Module):
    """A function of a parameter, so that there is something to learn."""

    def __init__(self, function: Callable, *shape: int):
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.randn(*shape)), function

    def forward(self) -> torch.Tensor:
        return self.function(self.weight)


def backward_of(name: str, model: Callable, *inputs: torch.Tensor) -> OpProfile:
    found = profile(model, *inputs, train=True)
    assert found.unknown == ()
    return op(found, name)


def moved(each: OpProfile) -> tuple[int, int]:
    return each.read_bytes, each.write_bytes


# ---- norms ------------------------------------------------------------------------------------------------


def test_the_backward_of_a_layer_norm():
    n, d = 32, 64
    x = torch.randn(n, d, requires_grad=True)
    found = backward_of("native_layer_norm_backward", nn.LayerNorm(d), x)
    dx = 2 + 1 + 1 + 2 + 4  # x̂; g·w; its sum; its product with x̂, summed; the four steps to dx
    assert found.flop == (dx + 2 + 1) * n * d, "dw = Σ g·x̂, db = Σ g"
    assert found.write_bytes == F32 * (n * d + 2 * d)
    assert found.read_bytes == F32 * (n * d + 2 * n + 2 * d) + F32, "x, mean and 1/σ, weight and bias; g is one number, repeated"


def test_what_nobody_asks_for_is_not_counted():
    n, d = 32, 64
    assert backward_of("native_layer_norm_backward", nn.LayerNorm(d), torch.randn(n, d)).flop == (2 + 2 + 1) * n * d, "no dx: the input learns nothing"
    plain = nn.LayerNorm(d, elementwise_affine=False)
    assert backward_of("native_layer_norm_backward", plain, torch.randn(n, d, requires_grad=True)).flop == (2 + 1 + 2 + 4) * n * d
    assert op(profile(plain, torch.randn(n, d)), "native_layer_norm").flop == 5 * n * d, "neither times weight nor plus bias"


def test_batch_norm_in_training_and_its_backward_share_their_sums():
    n, c, side = 4, 8, 6
    elements = n * c * side * side
    x = torch.randn(n, c, side, side, requires_grad=True)
    found = profile(nn.BatchNorm2d(c), x, train=True)
    assert op(found, "native_batch_norm").flop == 7 * elements
    back = op(found, "native_batch_norm_backward")
    assert back.flop == (2 + 2 + 1 + 4) * elements, "x̂; Σ g·x̂ and Σ g, which are dw and db; the four steps to dx"
    assert back.write_bytes == F32 * (elements + 2 * c)
    assert back.read_bytes == F32 * (elements + 5 * c) + F32, "x; weight, both running and both saved; g is one number, repeated"


def test_batch_norm_in_evaluation_only_scales():
    n, c, side = 4, 8, 6
    elements = n * c * side * side
    x = torch.randn(n, c, side, side, requires_grad=True)
    found = profile(nn.BatchNorm2d(c).eval(), x, train=True)
    assert op(found, "native_batch_norm").flop == 4 * elements, "minus mean, times 1/σ, times weight, plus bias"
    assert op(found, "native_batch_norm_backward").flop == (1 + 4 + 1) * elements, "dx = g · w/σ; x̂ and Σ g·x̂; Σ g"


def test_the_backward_of_a_group_norm():
    n, c, side = 4, 8, 6
    elements = n * c * side * side
    back = backward_of("native_group_norm_backward", nn.GroupNorm(2, c), torch.randn(n, c, side, side, requires_grad=True))
    assert back.flop == (2 + 1 + 4) * elements, "Σ g·x, Σ g; a·g + b·x + c"
    assert back.write_bytes == F32 * (elements + 2 * c)
    assert back.read_bytes == F32 * (2 * elements + 2 * n * 2 + c), "g and x; mean and 1/σ of each group; weight"


def test_a_fused_rms_norm_and_its_backward_as_a_gpu_runs_them():
    n, d = 8, 16
    x, weight, g, rstd = torch.randn(n, d), torch.randn(d), torch.randn(n, d), torch.randn(n, 1)
    aten = torch.ops.aten
    assert flop_of(aten._fused_rms_norm.default, (x, [d], weight, 1e-6), {}, (x, rstd)) == 4 * n * d, "square, sum, times 1/rms, times weight"
    back = partial(flop_of, aten._fused_rms_norm_backward.default, kwargs={}, result=(x, weight))
    assert back((g, x, [d], rstd, weight, [True, True])) == (1 + 1 + 2 + 3 + 2) * n * d, "x̂; g·w; its product with x̂, summed; three steps to dx; Σ g·x̂"
    assert back((g, x, [d], rstd, None, [True, False])) == (1 + 2 + 3) * n * d


def test_batch_norm_by_cudnn_counts_as_any_other():
    n, c, side = 4, 8, 6
    x, of_c = torch.randn(n, c, side, side), torch.randn(c)
    aten, elements = torch.ops.aten, x.numel()
    assert flop_of(aten.cudnn_batch_norm.default, (x, of_c, of_c, of_c, of_c, True, 0.1, 1e-5), {}, (x, of_c, of_c, of_c)) == 7 * elements
    assert flop_of(aten.cudnn_batch_norm_backward.default, (x, x, of_c, of_c, of_c, of_c, of_c, 1e-5, of_c), {}, (x, of_c, of_c)) == 9 * elements


def test_an_rms_norm_learns_without_anything_unknown():
    assert profile(nn.RMSNorm(16), torch.randn(4, 16, requires_grad=True), train=True).unknown == ()


# ---- softmax, losses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "name"), [(torch.softmax, "_softmax_backward_data"), (torch.log_softmax, "_log_softmax_backward_data")])
def test_the_backward_of_a_softmax(function: Callable, name: str):
    n, c = 8, 10
    back = backward_of(name, Weighted(lambda w: function(w, -1) * 2, n, c))
    assert back.flop == 4 * n * c
    assert moved(back) == (F32 * 2 * n * c, F32 * n * c), "g and y; dx"


def test_a_cross_entropy_picks_one_number_of_each_row():
    n, c = 8, 10
    found = profile(Weighted(lambda w: functional.cross_entropy(w, torch.randint(c, (n,))), n, c), train=True)
    assert found.unknown == ()
    forward, back = op(found, "nll_loss_forward"), op(found, "nll_loss_backward")
    assert (forward.flop, back.flop) == (n, n)
    assert (forward.access, back.access) == ("gather", "gather")
    assert moved(forward) == (F32 * n + I64 * n, F32 * 2), "the picked ones and the targets; loss and total weight"
    assert moved(back) == (F32 + I64 * n + F32, F32 * n * c), "g, targets, total weight; a gradient for every class"


def test_a_cross_entropy_with_weights_multiplies_too():
    n, c = 8, 10
    found = profile(Weighted(lambda w: functional.cross_entropy(w, torch.randint(c, (n,)), torch.ones(c)), n, c), train=True)
    assert (op(found, "nll_loss_forward").flop, op(found, "nll_loss_backward").flop) == (2 * n, 2 * n)


def test_squared_errors():
    n = 30
    found = profile(Weighted(lambda w: functional.mse_loss(w, torch.zeros(n)), n), train=True)
    assert (op(found, "mse_loss").flop, op(found, "mse_loss_backward").flop) == (3 * n, 2 * n)
    unreduced = profile(Weighted(lambda w: functional.mse_loss(w, torch.zeros(n), reduction="none"), n))
    assert op(unreduced, "mse_loss").flop == 2 * n


def test_a_binary_cross_entropy():
    n = 30
    found = profile(Weighted(lambda w: functional.binary_cross_entropy_with_logits(w, torch.zeros(n)), n), train=True)
    assert op(found, "binary_cross_entropy_with_logits").flop == 5 * n, "1 − t, times x, log σ, minus, sum"
    assert found.unknown == ()


def test_gelu_and_dropout_and_their_backward():
    n = 40
    found = profile(Weighted(functional.gelu, n), train=True)
    assert (op(found, "gelu").flop, op(found, "gelu_backward").flop) == (n, n)
    assert moved(op(found, "gelu_backward")) == (F32 * (n + 1), F32 * n)
    dropped = profile(Weighted(lambda w: torch.native_dropout(w, 0.5, True)[0], n), train=True)
    assert (op(dropped, "native_dropout").flop, op(dropped, "native_dropout_backward").flop) == (2 * n, 2 * n)
    assert profile(Weighted(functional.dropout, n), train=True).unknown == ()


# ---- pooling, embeddings ----------------------------------------------------------------------------------


def test_the_backward_of_max_pooling_adds_each_gradient_where_its_maximum_was():
    n, c, side, out = 2, 4, 8, 4
    found = profile(Weighted(lambda w: functional.max_pool2d(w, 3, 2, 1) * 2, n, c, side, side), train=True)
    forward, back = op(found, "max_pool2d_with_indices"), op(found, "max_pool2d_with_indices_backward")
    results = n * c * out * out
    assert (forward.flop, back.flop) == (9 * results, results)
    assert moved(back) == (F32 * results + I64 * results, F32 * n * c * side * side), "g and the indices, nothing of the input"


def test_the_backward_of_average_pooling_divides_once_and_adds_to_the_whole_window():
    n, c, side, out = 2, 4, 8, 4
    found = profile(Weighted(lambda w: functional.avg_pool2d(w, 2) * 2, n, c, side, side), train=True)
    results = n * c * out * out
    assert op(found, "avg_pool2d").flop == 4 * results
    back = op(found, "avg_pool2d_backward")
    assert back.flop == (1 + 4) * results
    assert moved(back) == (F32 * results, F32 * n * c * side * side)


def test_adaptive_pooling_and_its_backward():
    elements, results = 2 * 4 * 8 * 8, 2 * 4 * 4 * 4
    found = profile(Weighted(lambda w: functional.adaptive_avg_pool2d(w, 4) * 2, 2, 4, 8, 8), train=True)
    assert op(found, "_adaptive_avg_pool2d").flop == elements
    back = op(found, "_adaptive_avg_pool2d_backward")
    assert back.flop == results + elements
    assert moved(back) == (F32 * results, F32 * elements)


def test_the_backward_of_an_embedding_adds_each_row_and_writes_the_whole_table():
    rows, d, taken = 100, 16, 7
    back = backward_of("embedding_dense_backward", Weighted(lambda w: functional.embedding(torch.randint(rows, (taken,)), w) * 2, rows, d))
    assert (back.flop, back.access) == (taken * d, "gather")
    assert moved(back) == (F32 * taken * d + I64 * taken, F32 * rows * d)


# ---- optimizers -------------------------------------------------------------------------------------------

SGD = partial(torch.optim.SGD, lr=0.1)
MAKES = {
    "sgd": (SGD, 1), "with momentum": (partial(SGD, momentum=0.9), 3), "with decay": (partial(SGD, momentum=0.9, weight_decay=0.1), 4),
    "nesterov": (partial(SGD, momentum=0.9, nesterov=True), 4), "adam": (torch.optim.Adam, 7), "adam with decay": (partial(torch.optim.Adam, weight_decay=0.1), 8),
    "adamw": (torch.optim.AdamW, 8), "amsgrad": (partial(torch.optim.Adam, amsgrad=True), 8),
}  # fmt: skip


@pytest.mark.parametrize("form", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=["one by one", "foreach", "fused"])
@pytest.mark.parametrize("name", MAKES)
def test_an_optimizer_s_step_counts_the_same_in_every_form(name: str, form: dict[str, bool]):
    make, each = MAKES[name]
    model, x = nn.Linear(8, 16), torch.randn(4, 8)
    step = profile(model, x, optimizer=partial(make, **form))
    before = profile(model, x, train=True)
    parameters = 8 * 16 + 16
    counters = 2 if "adam" in name or name == "amsgrad" else 0  # of each of the two tensors the number of its step, plus one
    assert step.unknown == ()
    assert step.flop - before.flop == each * parameters + counters


@pytest.mark.parametrize(("form", "each"), [({"foreach": False}, 4), ({"fused": True}, 4), ({"foreach": True}, 5)])
def test_adagrad_multiplies_once_more_where_it_takes_all_tensors_together(form: dict[str, bool], each: int):
    model, x = nn.Linear(8, 16), torch.randn(4, 8)
    step = profile(model, x, optimizer=partial(torch.optim.Adagrad, **form))
    assert step.flop - profile(model, x, train=True).flop == each * (8 * 16 + 16) + 2


def test_a_fused_step_reads_gradients_and_writes_parameters_and_state():
    model, x = nn.Linear(8, 16), torch.randn(4, 8)
    found = op(profile(model, x, optimizer=partial(torch.optim.AdamW, fused=True)), "_fused_adamw_")
    parameters = 8 * 16 + 16
    assert found.read_bytes == F32 * 4 * parameters + 2 * F32, "parameters, gradients, both averages; two counters"
    assert found.write_bytes == F32 * 3 * parameters, "the gradients are not scaled, and so not written"


def test_the_model_that_is_given_stays_as_it_is_and_the_state_is_told():
    model, x = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16)), torch.randn(4, 8)
    before = deepcopy(model.state_dict())
    found = profile(model, x, optimizer=torch.optim.AdamW)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())
    learned = sum(each.numel() for each in model.parameters())
    assert found.state_bytes == F32 * (2 * learned + len(list(model.parameters()))), "two averages, and a counter of each tensor"
    assert found.train


def test_an_optimizer_of_nothing_is_refused():
    with pytest.raises(ExperimentError, match=r"needs a torch\.nn\.Module with parameters"):
        profile(lambda x: x + 1, torch.randn(3), optimizer=torch.optim.Adam)


# ---- what stays unknown -----------------------------------------------------------------------------------


def test_the_whole_says_what_share_of_its_bytes_is_unknown():
    found = profile(lambda x: torch.linalg.inv(x) + 1, torch.eye(8))
    inverse = sum(each.bytes for each in found.ops if each.unknown)
    assert 0 < found.unknown_share == inverse / found.bytes < 1
    assert profile(lambda x: x + 1, torch.eye(8)).unknown_share == 0


# ---- whole training steps ---------------------------------------------------------------------------------


class ResNet18(nn.Module):
    """With its norms, its pooling and its loss."""

    def __init__(self) -> None:
        super().__init__()
        shapes = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*(Block(*shape) for shape in shapes))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

    def forward(self, images_NCHW: torch.Tensor, classes_N: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(self.blocks(self.stem(images_NCHW))), classes_N)


def counted_by_torch(model: nn.Module, *inputs: torch.Tensor) -> int:
    """FLOP of products, convolutions and attention, forward and backward, as torch's own counter has them."""
    with FlopCounterMode(display=False) as counter:
        model(*inputs).backward()
    return counter.get_total_flops()


def products_and_rest(found: TaskProfile) -> tuple[int, int]:
    registered = {packet.__name__ for packet in flop_registry}
    products = sum(each.flop for each in found.ops if each.name in registered)
    return products, found.flop - products


def test_a_training_step_of_a_resnet_18_has_nothing_unknown_and_every_flop_in_its_place():
    n, side = 2, 64
    model, images, classes = ResNet18(), torch.randn(n, 3, side, side), torch.randint(1000, (n,))
    found = profile(model, images, classes, optimizer=partial(torch.optim.SGD, lr=0.1, momentum=0.9))
    assert found.unknown == () and found.unknown_share == 0
    products, rest = products_and_rest(found)
    assert products == counted_by_torch(deepcopy(model), images, classes)

    maps = {64: n * 64 * 16 * 16, 128: n * 128 * 8 * 8, 256: n * 256 * 4 * 4, 512: n * 512 * 2 * 2}  # elements after the pooling, and of each stage
    stem = n * 64 * 32 * 32
    blocks = {64: 2, 128: 2, 256: 2, 512: 2}
    norms = stem + sum(2 * blocks[c] * elements for c, elements in maps.items())
    relus = stem + sum(2 * blocks[c] * elements for c, elements in maps.items())
    sums = sum(blocks[c] * elements for c, elements in maps.items())  # the shortcut, added
    # backward, where a block's input has two gradients: the convolution's and the shortcut's
    entered = {64: 2 * maps[64], 128: maps[64] + maps[128], 256: maps[128] + maps[256], 512: maps[256] + maps[512]}
    pooling = 9 * maps[64] + maps[64]
    head = maps[512] + maps[512]  # the mean of four elements; its gradient, divided for each of them
    bias = n * 1000  # Σ g of the head's bias
    loss = 5 * n * 1000 + n + n + 4 * n * 1000  # log-softmax, the picked ones; backward
    counters = 1 + 16  # each batch norm counts its batches
    harness = 2  # the profile sums the losses: of one number, and of one loss
    optimizer = 3 * sum(each.numel() for each in model.parameters())
    by_hand = (7 + 9) * norms + 2 * relus + sums + sum(entered.values()) + pooling + head + bias + loss + counters + harness + optimizer
    named = {each.name: each.flop for each in found.ops}
    assert named["native_batch_norm"] == 7 * norms and named["native_batch_norm_backward"] == 9 * norms
    assert named["relu"] == named["threshold_backward"] == relus
    assert named["max_pool2d_with_indices"] + named["max_pool2d_with_indices_backward"] == pooling
    assert rest == by_hand, named


def test_a_training_step_of_a_small_decoder_has_nothing_unknown_and_every_flop_in_its_place():
    words, d, heads, b, t = 100, 32, 4, 2, 16

    class Learning(Decoder):
        def forward(self, tokens_BT: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(super().forward(tokens_BT).view(-1, words), tokens_BT.view(-1))

    model, tokens = Learning(words, d, heads), torch.randint(words, (b, t))
    found = profile(model, tokens, optimizer=torch.optim.AdamW)
    assert found.unknown == () and found.unknown_share == 0
    products, rest = products_and_rest(found)
    fused = sum(each.flop for each in found.ops if "flash_attention_for_cpu" in each.name)
    assert fused == 4 * b * heads * t * t * (d // heads) * 7 // 2, "two products forward, five backward"
    assert products == counted_by_torch(deepcopy(model), tokens)
    rows = b * t
    assert rest - fused == hand_counted_decoder(rows, d, words, model), {each.name: each.flop for each in found.ops}


def hand_counted_decoder(rows: int, d: int, words: int, model: nn.Module) -> int:
    """Norms, GELU, residual sums, biases, embedding, loss and AdamW of `Decoder`, forward and backward."""
    norms = 2 * (7 + 13) * rows * d
    gelu = 2 * rows * 4 * d
    residual = 2 * rows * d
    forks = 2 * rows * d  # backward, x goes into a norm and past it: two gradients, added
    biases = rows * (3 * d + d + 4 * d + d + words)  # Σ g
    embedding = rows * d
    loss = 5 * rows * words + rows + rows + 4 * rows * words
    parameters = list(model.parameters())
    adamw = 8 * sum(each.numel() for each in parameters) + len(parameters)
    harness = 2  # the profile sums the losses: of one number, and of one loss
    return norms + gelu + residual + forks + biases + embedding + loss + harness + adamw
