"""FLOP and bytes of operators against figures worked out by hand, exactly; wholes; what is unknown; memory and parallelism."""

import pytest
import torch
from torch import nn

from labkit.errors import ExperimentError
from labkit.profile import OpProfile, TaskProfile, profile

F32 = 4


def op(found: TaskProfile, name: str) -> OpProfile:
    return next(each for each in found.ops if each.name == name)


# ---- operators --------------------------------------------------------------------------------------------


def test_a_linear_layer():
    n, k, m = 16, 64, 128
    found = op(profile(nn.Linear(k, m), torch.randn(n, k)), "addmm")
    assert found.flop == 2 * n * k * m
    assert found.read_bytes == F32 * (m + n * k + k * m), "bias, input, weight"
    assert found.write_bytes == F32 * n * m
    assert found.intensity == found.flop / (found.read_bytes + found.write_bytes)


def test_a_convolution():
    n, c_in, c_out, size, kernel, stride = 2, 3, 8, 32, 3, 2
    found = op(profile(nn.Conv2d(c_in, c_out, kernel, stride=stride, padding=1), torch.randn(n, c_in, size, size)), "convolution")
    out = size // stride
    assert found.flop == 2 * n * c_out * out * out * c_in * kernel * kernel
    assert found.read_bytes == F32 * (n * c_in * size * size + c_out * c_in * kernel * kernel + c_out)
    assert found.write_bytes == F32 * n * c_out * out * out


def test_attention_in_one_kernel():
    b, h, s, t, d = 2, 4, 16, 24, 8
    query, key, value = torch.randn(b, h, s, d), torch.randn(b, h, t, d), torch.randn(b, h, t, d)
    found = profile(nn.functional.scaled_dot_product_attention, query, key, value)
    [fused] = [each for each in found.ops if "scaled_dot_product" in each.name]
    assert fused.flop == 2 * b * h * s * t * d + 2 * b * h * s * t * d, "QKᵀ and PV"
    assert fused.read_bytes == F32 * b * h * d * (s + 2 * t)


def test_attention_by_hand():
    b, s, d = 2, 16, 8

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.softmax(query @ key.transpose(1, 2), dim=-1) @ value

    found = profile(attention, *(torch.randn(b, s, d) for _ in range(3)))
    assert op(found, "bmm").flop == 2 * (2 * b * s * s * d)
    assert op(found, "_softmax").flop == 5 * b * s * s
    assert op(found, "bmm").access == "sequential"


def test_a_layer_norm():
    n, d = 32, 64
    found = op(profile(nn.LayerNorm(d), torch.randn(n, d)), "native_layer_norm")
    assert found.flop == 7 * n * d
    assert found.read_bytes == F32 * (n * d + 2 * d)
    assert found.write_bytes == F32 * (n * d + 2 * n), "the result, and mean and 1/σ of each row"


def test_an_embedding_moves_the_rows_that_it_takes_and_counts_nothing():
    rows, d, taken = 10_000, 64, 32
    found = op(profile(nn.Embedding(rows, d), torch.randint(rows, (taken,))), "embedding")
    assert (found.flop, found.access) == (0, "gather")
    assert found.read_bytes == 8 * taken + F32 * taken * d
    assert found.write_bytes == F32 * taken * d


def test_element_by_element_is_one_an_element_and_a_sum_one_for_each_that_goes_in():
    found = profile(lambda x: (torch.relu(x) + x).sum(), torch.randn(8, 8))
    assert [op(found, name).flop for name in ("relu", "add", "sum")] == [64, 64, 64]
    assert op(found, "sum").access == "reduction"
    assert op(found, "add").read_bytes == 2 * 64 * F32


def test_views_move_nothing_and_what_is_not_dense_is_strided():
    found = profile(lambda x: x.t().view(8, 2, 4).permute(1, 0, 2), torch.randn(8, 8).t().contiguous().t())
    assert (found.calls, found.bytes) == (0, 0)
    assert op(profile(lambda x: x[:, ::2] * 2, torch.randn(8, 8)), "mul").access == "strided"
    assert op(profile(lambda x: x.t() * 2, torch.randn(8, 8)), "mul").access == "sequential", "dense in another order"


def test_in_place_is_read_once_and_written_once():
    found = op(profile(lambda x: x.mul_(2), torch.randn(100)), "mul_")
    assert (found.read_bytes, found.write_bytes) == (400, 400)


def test_an_expanded_tensor_is_read_once():
    found = op(profile(lambda x: x.expand(1000, 10) + 1, torch.randn(1, 10)), "add")
    assert (found.read_bytes, found.write_bytes) == (40, 40_000)


# ---- wholes -----------------------------------------------------------------------------------------------


def conv_flop(c_in: int, c_out: int, out: int, kernel: int) -> int:
    return 2 * c_in * c_out * kernel * kernel * out * out


class Block(nn.Module):
    """As in ResNet-18."""

    def __init__(self, c_in: int, c_out: int, stride: int):
        super().__init__()
        self.one = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(c_out), nn.BatchNorm2d(c_out)])
        self.short = nn.Conv2d(c_in, c_out, 1, stride, bias=False) if stride > 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.one(x)))
        return torch.relu(self.norms[1](self.two(inner)) + (x if self.short is None else self.short(x)))


def test_a_resnet_18_is_the_sum_of_its_convolutions_and_its_head():
    blocks = [Block(*each) for each in ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))]
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)
    ).eval()  # fmt: skip
    found = profile(model, torch.randn(1, 3, 224, 224))
    expected = conv_flop(3, 64, 112, 7) + 4 * conv_flop(64, 64, 56, 3)
    for c_in, c_out, out in ((64, 128, 28), (128, 256, 14), (256, 512, 7)):
        expected += conv_flop(c_in, c_out, out, 3) + 3 * conv_flop(c_out, c_out, out, 3) + conv_flop(c_in, c_out, out, 1)
    assert op(found, "convolution").flop == expected
    assert op(found, "addmm").flop == 2 * 512 * 1000
    assert expected + 2 * 512 * 1000 == 3_628_146_688, "1.8 GMAC, as is published"
    assert found.unknown == ()


class Decoder(nn.Module):
    """One layer of a decoder, causal attention and an MLP, between an embedding and a head."""

    def __init__(self, words: int, d: int, heads: int):
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(words, d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.norms, self.head = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)]), nn.Linear(d, words)

    def forward(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens_BT)
        b, t, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return self.head(x + self.down(nn.functional.gelu(self.up(self.norms[1](x)))))


def test_a_decoder_is_its_products_its_attention_and_what_is_done_element_by_element():
    words, d, heads, b, t = 100, 32, 4, 2, 16
    found = profile(Decoder(words, d, heads).eval(), torch.randint(words, (b, t)))
    products = 2 * b * t * (d * 3 * d + d * d + d * 4 * d + 4 * d * d + d * words)
    attention = 4 * b * heads * t * t * (d // heads)
    elements = 2 * (7 * b * t * d) + 2 * (b * t * d) + b * t * 4 * d
    assert found.flop == products + attention + elements
    assert found.unknown == ()


def test_backward_of_a_linear_layer_is_twice_its_forward():
    model, x = nn.Linear(64, 128, bias=False), torch.randn(16, 64, requires_grad=True)
    forward, both = profile(model, x), profile(model, x, train=True)
    assert op(forward, "mm").flop == 2 * 16 * 64 * 128
    assert op(both, "mm").flop == 3 * op(forward, "mm").flop


def test_control_flow_that_depends_on_values_is_no_obstacle():
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x @ x if x.sum() > 0 else x

    assert op(profile(branching, torch.ones(8, 8)), "mm").flop == 2 * 8**3
    assert not [each for each in profile(branching, -torch.ones(8, 8)).ops if each.name == "mm"]


# ---- unknown ----------------------------------------------------------------------------------------------


@torch.library.custom_op("labkit_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator that nobody knows."""
    return x * 2


def test_a_custom_operator_is_unknown_and_not_zero():
    found = profile(lambda x: twice(x) + 1, torch.randn(10))
    custom = op(found, "labkit_test::twice")
    assert (custom.unknown, custom.intensity) == (1, None)
    assert custom.bytes == 80
    assert found.unknown == ("labkit_test::twice",)


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(ExperimentError, match="nothing that the model returns depends on a parameter"):
        profile(lambda x: x + 1, torch.randn(3), train=True)


# ---- memory and parallelism -------------------------------------------------------------------------------


def test_the_peak_of_an_mlp_is_its_two_largest_neighbours():
    n = 32
    model = nn.Sequential(nn.Linear(16, 256), nn.Linear(256, 64), nn.Linear(64, 8))
    found = profile(model, torch.randn(n, 16))
    assert found.peak_bytes == F32 * n * (256 + 64), "without a backward pass only an operator's input and result live"
    assert found.parameter_bytes == F32 * sum(each.numel() for each in model.parameters())
    assert found.input_bytes == F32 * n * 16


def test_training_keeps_what_the_backward_pass_needs():
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    x = torch.randn(32, 64)
    assert profile(model, x, train=True).peak_bytes > 2 * profile(model, x).peak_bytes


def test_two_branches_are_twice_as_parallel_as_one_chain():
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    chain = profile(lambda x, y: (x @ y) @ y, a, b)
    branches = profile(lambda x, y: (x @ y, y @ x), a, b)
    assert (chain.parallelism, chain.span_calls) == (1.0, 2)
    assert (branches.parallelism, branches.span_calls) == (2.0, 1)
