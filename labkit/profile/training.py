"""FLOP of what a training step does besides products: normalisation, softmax, losses, pooling, embeddings and their backward passes; optimizers.

Counted as `formulas.py` counts: each addition, multiplication, comparison and transcendental function of an element once. What is done once
for a row or a channel (a root, the division of a sum) is left out, as its share is one in the length of the row. Each formula stands as
arithmetic beside its number, so that it can be checked by hand; y is the result of the forward pass, g the gradient that comes in.
"""

from collections.abc import Callable, Mapping
from typing import Any

from labkit.profile.given import Given, numel, size_of

Formula = Callable[[Given, Any], int]

_MEAN_AND_VARIANCE = 1 + 3  # Σx; x − mean, squared, summed
_NORMALISE = 2  # x̂ = (x − mean) · 1/σ; after a variance x − mean is there already
_WEIGHTED_SUM = 2  # Σ g·x̂: one multiplication, one addition
_SUM = 1


def _normalised(given: Given, _: Any) -> int:
    """Layer and group norm, and batch norm in training: mean 1, variance 3, times 1/σ 1; times weight 1, plus bias 1."""
    training = given.first("training") if given.name in ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm") else True
    own = _MEAN_AND_VARIANCE + 1 if training else _NORMALISE
    return (own + given.has("weight") + given.has("bias")) * numel(given["input"])


def _normalised_by_given(given: Given, _: Any) -> int:
    """Batch norm whose mean and variance are given: (x − mean) · 1/σ 2; times weight, plus bias."""
    return (_NORMALISE + given.has("weight") + given.has("bias")) * numel(given["input"])


def _layer_norm_backward(given: Given, _: Any) -> int:
    """With h = g·w: dx = 1/σ · (h − mean(h) − x̂·mean(h·x̂)); dw = Σ g·x̂; db = Σ g. Each row has sums of its own for dx, so none are shared."""
    each = _NORMALISE  # x̂
    if given.wanted(0):
        each += given.has("weight") + _SUM + _WEIGHTED_SUM + 4  # h; Σh; Σh·x̂; x̂·c, h − mean, minus, · 1/σ
    each += _WEIGHTED_SUM * (given.wanted(1) and given.has("weight")) + _SUM * (given.wanted(2) and given.has("bias"))
    return each * numel(given["input"])


def _batch_norm_backward(given: Given, _: Any) -> int:
    """dx = w/σ · (g − mean(g) − x̂·mean(g·x̂)); dw = Σ g·x̂ and db = Σ g are those same sums. In evaluation dx = g · w/σ."""
    n, training = numel(given["input"]), {"native_batch_norm_backward": "train", "batch_norm_backward": "update"}.get(given.name)
    if training and not given[training]:
        return ((1 if given.wanted(0) else 0) + (_NORMALISE + _WEIGHTED_SUM if given.wanted(1) else 0) + (_SUM if given.wanted(2) else 0)) * n
    sums = _NORMALISE + _WEIGHTED_SUM + _SUM
    return (sums + (4 if given.wanted(0) else 0)) * n  # x̂·c, g − mean, minus, · w/σ


def _group_norm_backward(given: Given, _: Any) -> int:
    """Σ g·x and Σ g of each channel, from which dw and db are made; dx = a·g + b·x + c, with a, b and c of each channel or group."""
    return (_WEIGHTED_SUM + _SUM + (4 if given.wanted(0) else 0)) * numel(given["input"])


def _rms_norm(given: Given, _: Any) -> int:
    """x squared, summed; · 1/rms; · weight."""
    return (2 + 1 + given.has("weight")) * numel(given["input"])


def _rms_norm_backward(given: Given, _: Any) -> int:
    """With h = g·w and x̂ = x/rms: dx = 1/rms · (h − x̂·mean(h·x̂)); dw = Σ g·x̂."""
    each = 1  # x̂
    if given.wanted(0):
        each += given.has("weight") + _WEIGHTED_SUM + 3  # h; Σh·x̂; x̂·c, minus, · 1/rms
    return (each + _WEIGHTED_SUM * (given.wanted(1) and given.has("weight"))) * numel(given["input"])


def _for_each(count: int, *names: str) -> Formula:
    """So many FLOP for each element of the argument of one of these names."""
    return lambda given, _: count * numel(given.first(*names))


def _picked(given: Given, _: Any) -> int:
    """Negative log likelihood, either way: one for each target, and one more for its weight; nothing for the classes that are not it."""
    return (1 + given.has("weight")) * numel(given["target"])


def _squared_error(given: Given, _: Any) -> int:
    """Subtract, square, and unless nothing is reduced, add."""
    return (3 if given["reduction"] else 2) * numel(given["self"])


def _binary_cross_entropy(given: Given, _: Any) -> int:
    """(1 − t)·x − log σ(x), and the sum; log σ counts as one function. · weight where there is one; a weight of the positive class adds t·(p − 1) + 1, times."""
    each = 4 + (1 if given["reduction"] else 0) + given.has("weight") + 4 * given.has("pos_weight")
    return each * numel(given["self"])


def _pool(dimensions: int) -> Formula:
    """Of each window: an addition or a comparison for each element."""
    return lambda given, result: size_of(given["kernel_size"], dimensions) * numel(result[0] if isinstance(result, tuple) else result)


def _average_pool_backward(dimensions: int) -> Formula:
    """g divided once, then added to each element of its window."""
    return lambda given, _: (1 + size_of(given["kernel_size"], dimensions)) * numel(given["grad_output"])


def _adaptive_average_backward(given: Given, _: Any) -> int:
    """g divided once, then added to each element of its window: where the windows do not overlap, each element of the input is in one."""
    return numel(given["grad_output"]) + numel(given["self"])


def _adam(given: Given, _: Any) -> int:
    """The seven steps that Adam takes one by one: lerp, mul, addcmul, sqrt, div, add, addcdiv; weight decay, AMSGrad's maximum and maximize one each."""
    each = 7 + bool(given["weight_decay"]) + bool(given["amsgrad"]) + bool(given["maximize"])
    return (each + given.has("grad_scale")) * numel(given["self"])


def _sgd(given: Given, _: Any) -> int:
    """p − lr·g as one step; momentum's mul and add (none in its first step, which copies); weight decay, Nesterov and maximize one each."""
    momentum = bool(given["momentum"])
    each = 1 + bool(given["weight_decay"]) + bool(given["maximize"]) + (2 if momentum and not given["is_first_step"] else 0)
    return (each + (momentum and bool(given["nesterov"])) + given.has("grad_scale")) * numel(given["self"])


def _adagrad(given: Given, _: Any) -> int:
    """Addcmul, sqrt, add, addcdiv; weight decay and maximize one each."""
    each = 4 + bool(given["weight_decay"]) + bool(given["maximize"])
    return (each + given.has("grad_scale")) * numel(given["self"])


FORMULAS: Mapping[str, Formula] = {
    "native_layer_norm": _normalised,
    "native_group_norm": _normalised,
    "native_batch_norm": _normalised,
    "_native_batch_norm_legit": _normalised,
    "_batch_norm_with_update": _normalised,
    "cudnn_batch_norm": _normalised,
    "miopen_batch_norm": _normalised,
    "_native_batch_norm_legit_no_training": _normalised_by_given,
    "_batch_norm_no_update": _normalised_by_given,
    "_fused_rms_norm": _rms_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_batch_norm_backward": _batch_norm_backward,
    "cudnn_batch_norm_backward": _batch_norm_backward,
    "miopen_batch_norm_backward": _batch_norm_backward,
    "batch_norm_backward": _batch_norm_backward,
    "native_group_norm_backward": _group_norm_backward,
    "_fused_rms_norm_backward": _rms_norm_backward,
    "_softmax": _for_each(5, "self"),  # maximum, subtract, exp, sum, divide
    "_log_softmax": _for_each(5, "self"),  # maximum, subtract, exp, sum, subtract
    "_safe_softmax": _for_each(7, "self"),  # and a comparison and its "all", for rows that are masked whole
    "_softmax_backward_data": _for_each(4, "grad_output"),  # y · (g − Σ g·y)
    "_log_softmax_backward_data": _for_each(4, "grad_output"),  # g − exp(y) · Σ g
    "nll_loss_forward": _picked,
    "nll_loss2d_forward": _picked,
    "nll_loss_backward": _picked,
    "nll_loss2d_backward": _picked,
    "mse_loss": _squared_error,
    "mse_loss_backward": _for_each(2, "self"),  # (x − t) · 2g/n
    "binary_cross_entropy_with_logits": _binary_cross_entropy,
    "native_dropout": _for_each(2, "input"),
    "native_dropout_backward": _for_each(2, "grad_output"),  # g · mask · 1/(1 − p)
    "max_pool2d": _pool(2),
    "max_pool2d_with_indices": _pool(2),
    "max_pool3d_with_indices": _pool(3),
    "avg_pool2d": _pool(2),
    "avg_pool3d": _pool(3),
    "max_pool2d_with_indices_backward": _for_each(1, "grad_output"),
    "max_pool3d_with_indices_backward": _for_each(1, "grad_output"),
    "avg_pool2d_backward": _average_pool_backward(2),
    "avg_pool3d_backward": _average_pool_backward(3),
    "_adaptive_avg_pool2d": _for_each(1, "self"),
    "_adaptive_avg_pool3d": _for_each(1, "self"),
    "adaptive_avg_pool2d": _for_each(1, "self"),
    "adaptive_max_pool2d": _for_each(1, "self"),
    "_adaptive_avg_pool2d_backward": _adaptive_average_backward,
    "_adaptive_avg_pool3d_backward": _adaptive_average_backward,
    "adaptive_max_pool2d_backward": _for_each(1, "grad_output"),
    "upsample_nearest2d_backward": _for_each(1, "grad_output"),
    "embedding_dense_backward": _for_each(1, "grad_output"),
    "index_put": lambda given, _: numel(given["values"]) if given["accumulate"] else 0,
    "index_put_": lambda given, _: numel(given["values"]) if given["accumulate"] else 0,
    "scatter_add": _for_each(1, "src"),
    "cumsum": _for_each(1, "self"),
    "logsumexp": _for_each(4, "self"),  # maximum, subtract, exp, sum
    "var": _for_each(_MEAN_AND_VARIANCE, "self"),
    "std": _for_each(_MEAN_AND_VARIANCE, "self"),
    "_fused_adam_": _adam,
    "_fused_adamw_": _adam,
    "_fused_sgd_": _sgd,
    "_fused_adagrad_": _adagrad,
}
"""Operator → its FLOP, from its arguments and its result."""
