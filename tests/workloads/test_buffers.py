"""Slot buffers are allocated once, grow when they must, and never lie over each other."""

import pytest
import torch

from labkit.workloads.buffers import Buffers

CPU = torch.device("cpu")
U8, F32, I64 = torch.uint8, torch.float32, torch.int64


@pytest.fixture
def buffers() -> Buffers:
    return Buffers(CPU)


def test_the_same_slot_is_the_same_memory(buffers: Buffers):
    first, again = (buffers.host(0, (4, 8, 8, 3), U8, pinned=False) for _ in range(2))
    assert first.data_ptr() == again.data_ptr()
    first.fill_(7)
    assert (again == 7).all()
    assert buffers.held_bytes() == 4 * 8 * 8 * 3


def test_a_smaller_batch_uses_the_front_of_the_same_memory(buffers: Buffers):
    large = buffers.host(0, (8, 6), U8, pinned=False)
    small = buffers.host(0, (2, 6), U8, pinned=False)
    assert small.data_ptr() == large.data_ptr() and small.shape == (2, 6)
    assert buffers.held_bytes() == 48


def test_a_buffer_only_grows(buffers: Buffers):
    held = []
    for count in (4, 2, 8, 1, 8, 16, 3):
        buffers.on_device(0, (count, 10), U8)
        held.append(buffers.held_bytes())
    assert held == [40, 40, 80, 80, 80, 160, 160]


def test_a_tensor_in_use_outlives_the_growth_of_its_buffer(buffers: Buffers):
    old = buffers.host(0, (4,), U8, pinned=False).fill_(3)
    buffers.host(0, (4000,), U8, pinned=False).fill_(9)
    assert old.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(("dtype", "size"), [(U8, 1), (F32, 4), (I64, 8)])
def test_any_type_fits_in_the_same_bytes(buffers: Buffers, dtype: torch.dtype, size: int):
    view = buffers.host(0, (3, 5), dtype, pinned=False)
    assert (view.dtype, view.shape, view.is_contiguous()) == (dtype, (3, 5), True)
    assert buffers.held_bytes() == 15 * size


def test_changing_the_type_of_a_slot_back_and_forth_allocates_nothing(buffers: Buffers):
    first = buffers.on_device(0, (4, 3), F32)
    for dtype in (U8, F32, U8, F32):
        assert buffers.on_device(0, (4, 3), dtype).data_ptr() == first.data_ptr()
    assert buffers.held_bytes() == 48


def test_slots_and_sides_are_different_memory(buffers: Buffers):
    views = [buffers.host(slot, (100,), U8, pinned=False).fill_(slot) for slot in range(3)]
    views += [buffers.on_device(slot, (100,), U8).fill_(10 + slot) for slot in range(3)]
    assert [view.unique().tolist() for view in views] == [[0], [1], [2], [10], [11], [12]]
    assert buffers.held_bytes() == 600


def test_where_there_is_no_gpu_to_pin_for_nothing_is_pinned_and_nothing_is_allocated_twice(buffers: Buffers):
    plain, pinned = (buffers.host(0, (100,), U8, pinned=pin) for pin in (False, True))
    assert plain.data_ptr() == pinned.data_ptr()
    assert not pinned.is_pinned()


def test_device_buffers_of_a_simulated_device_hold_no_memory():
    view = Buffers(torch.device("meta")).on_device(0, (1000, 1000), F32)
    assert view.is_meta and view.shape == (1000, 1000)
