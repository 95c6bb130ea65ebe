"""Batches of any form: their bytes, their words, their form at any size, and the memory behind them."""

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

from labkit.workloads.batches import Batch, BatchBuffers, BatchForm, bytes_of, form_words, tensors_of
from labkit.workloads.buffers import Buffers

CPU = torch.device("cpu")
Pair = namedtuple("Pair", ["left", "right"])


def nested() -> Batch:
    inputs = {"image": torch.arange(6.0).view(2, 3), "more": [torch.tensor([1, 2]), (torch.tensor([True, False]), "name")]}
    return Batch(OrderedDict(inputs), Pair(torch.tensor(5), None))


def test_bytes_are_those_of_all_tensors_at_any_depth():
    assert bytes_of(nested()) == 6 * 4 + 2 * 8 + 2 * 1 + 8
    assert [tensor.numel() for tensor in tensors_of(nested())] == [6, 2, 2, 1]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (torch.zeros(16, 3), "float32 [16, 3]"),
        ({"ids": torch.zeros(2, dtype=torch.int64), "mask": torch.zeros(2, dtype=torch.bool)}, "{ids: int64 [2], mask: bool [2]}"),
        ((torch.zeros(1), torch.zeros(1)), "(float32 [1], float32 [1])"),
        ([torch.zeros(1)] * 40, "(float32 [1], … 40 of them)"),
        ((), "()"),
        ("text", "str"),
        (None, "NoneType"),
    ],
)
def test_a_form_is_said_in_words(tree: Any, words: str):
    assert form_words(tree) == words


def test_a_copy_on_the_device_has_the_same_form_and_values_and_is_another_memory():
    batch = nested()
    copied = BatchBuffers(CPU).on_device(batch, 0, True)
    assert type(copied.inputs) is OrderedDict and type(copied.target) is Pair and copied.target.right is None
    assert copied.inputs["more"][1][1] == "name"
    for one, other in zip(tensors_of(batch), tensors_of(copied), strict=True):
        assert torch.equal(one, other) and one.dtype == other.dtype and one.data_ptr() != other.data_ptr()


def test_a_slot_keeps_its_memory_and_another_slot_has_its_own():
    buffers = BatchBuffers(CPU)
    first = buffers.on_device(nested(), 0, True)
    second = buffers.on_device(nested(), 1, True)
    again = buffers.on_device(nested(), 0, True)
    places = [[tensor.data_ptr() for tensor in tensors_of(batch)] for batch in (first, second, again)]
    assert places[0] == places[2] and not set(places[0]) & set(places[1])
    assert buffers.held_bytes() == 2 * bytes_of(nested())


def test_buffers_grow_and_never_shrink():
    buffers, held = BatchBuffers(CPU), []
    for size in (4, 8, 2, 8):
        copied = buffers.on_device(Batch(torch.ones(size, 3), torch.ones(size)), 0, True)
        assert copied.inputs.shape == (size, 3) and copied.inputs.sum() == 3 * size
        held.append(buffers.held_bytes())
    assert held == [64, 128, 128, 128]


def test_tensors_that_are_not_contiguous_or_empty_are_copied_too():
    batch = Batch(torch.arange(6.0).view(2, 3).t(), torch.empty(0))
    copied = BatchBuffers(CPU).on_device(batch, 0, True)
    assert torch.equal(copied.inputs, batch.inputs) and copied.target.shape == (0,)


def test_for_a_gpu_a_batch_is_brought_into_the_pinned_buffers_of_its_slot(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[Any, ...]] = []

    def host(self: Buffers, slot: int, shape: tuple[int, ...], dtype: torch.dtype, pinned: bool) -> torch.Tensor:
        asked.append((slot, shape, dtype, pinned))
        return torch.empty(shape, dtype=dtype)

    monkeypatch.setattr(Buffers, "host", host)
    batch = nested()
    copied = BatchBuffers(torch.device("cuda")).pinned(batch, 7)
    assert asked == [(7, tuple(tensor.shape), tensor.dtype, True) for tensor in tensors_of(batch)]
    for one, other in zip(tensors_of(batch), tensors_of(copied), strict=True):
        assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()


def test_where_there_is_no_gpu_to_pin_for_a_batch_stays_as_it_is():
    batch, buffers = nested(), BatchBuffers(CPU)
    assert buffers.pinned(batch, 0) is batch
    assert buffers.held_bytes() == 0


# ---- the form of a batch of any size -------------------------------------------------------------------------------


def collated(items: Any) -> Batch:
    return Batch(*default_collate(list(items)))


@pytest.mark.parametrize("size", [1, 2, 7, 16, 4096])
@pytest.mark.parametrize("items", [1, 3, 8])
def test_a_batch_of_any_size_has_the_shapes_that_collating_so_many_items_gives(size: int, items: int):
    form = BatchForm([({"a": torch.zeros(5, 2), "b": 1.5}, place) for place in range(items)], collated)
    batch = form.on_meta(size)
    assert form_words(batch) == f"({{a: float32 [{size}, 5, 2], b: float64 [{size}]}}, int64 [{size}])"
    assert all(tensor.is_meta for tensor in tensors_of(batch))
    assert form.bytes(size) == size * (5 * 2 * 4 + 8 + 8)


def test_items_of_several_lengths_are_padded_to_the_longest_and_a_packed_dimension_grows_in_proportion():
    def padded_and_packed(items: Any) -> Batch:
        return Batch(torch.nn.utils.rnn.pad_sequence(list(items), batch_first=True), torch.cat(list(items)))

    form = BatchForm([torch.zeros(2), torch.zeros(4)], padded_and_packed)
    assert form_words(form.on_meta(10)) == "(float32 [10, 4], float32 [30])"


def test_where_the_number_of_tensors_grows_a_batch_of_the_size_is_made():
    def as_lists(items: Any) -> Batch:
        return Batch([image for image, _ in items], [{"boxes": boxes} for _, boxes in items])

    form = BatchForm([(torch.zeros(3, 2, 2), torch.zeros(1, 4)), (torch.zeros(3, 3, 3), torch.zeros(2, 4))], as_lists)
    assert [list(tensor.shape) for tensor in form.on_meta(3).inputs] == [[3, 2, 2], [3, 3, 3], [3, 2, 2]]
    assert form.bytes(3) == 4 * (12 + 27 + 12 + 4 + 8 + 4)
