"""The cuda device on a real GPU: what only hardware can show. Skipped, with the reason, where there is none."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from labkit.device.cuda import CudaDevice
from labkit.device.cuda_clock import RENEW_AFTER_NS
from labkit.schedule import Handle, Lane, Op, Status

pytestmark = pytest.mark.cuda

MIB = 1 << 20
H2D, COMPUTE, D2H = Lane("h2d"), Lane("compute"), Lane("d2h")


@pytest.fixture(scope="module")
def torch() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch.cuda.is_available() is false: there is no CUDA GPU here")
    return torch


@pytest.fixture
def device(torch: Any) -> Iterator[CudaDevice]:
    device = CudaDevice(0)
    yield device
    device.cancel()
    device.close()


def warmed(torch: Any, device: CudaDevice, ops: list[Op]) -> None:
    """Run each once, so that no first use lies inside what a test looks at."""
    for op in ops:
        device.wait([device.submit(op)])
    torch.cuda.synchronize()


def overlap_ns(one: Handle, other: Handle) -> int:
    return min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)


def test_a_pinned_copy_and_a_kernel_run_at_the_same_time(torch: Any, device: CudaDevice):
    source = torch.zeros(256 * MIB, dtype=torch.uint8).pin_memory()
    target = torch.empty_like(source, device="cuda:0")
    matrix = torch.randn(4096, 4096, device="cuda:0")
    torch.cuda.synchronize()
    copy = Op("copy", H2D, lambda: target.copy_(source, non_blocking=True))

    def multiply() -> Any:
        result = matrix
        for _ in range(20):
            result = result @ matrix
        return result

    step = Op("step", COMPUTE, multiply)
    warmed(torch, device, [copy, step])
    handles = [device.submit(step), device.submit(copy)]
    for handle in handles:
        device.wait([handle])
    shorter = min(handle.end_ns - handle.start_ns for handle in handles)
    assert overlap_ns(*handles) > shorter // 2


def test_times_follow_the_order_of_the_chain_and_lie_within_the_hosts_own_time(
    torch: Any, device: CudaDevice
):
    kernel = Op("kernel", COMPUTE, lambda *_: torch.cuda._sleep(200_000))
    warmed(torch, device, [kernel])
    handles: list[Handle] = []
    began = device.now()
    for _ in range(200):
        handles.append(device.submit(kernel))
        handles.append(device.submit(Op("copy", H2D, lambda _: None), handles[-1]))
    device.wait(handles[-1:])
    ended = device.now()
    assert began <= handles[0].start_ns and handles[-1].end_ns <= ended + 1
    assert all(first.end_ns <= second.start_ns for first, second in pairwise(handles))
    assert device.recorder.meta["clock_residual_ns"] < 1_000_000


def test_a_kernel_is_as_long_by_its_slice_as_by_cudas_own_events(torch: Any, device: CudaDevice):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed() -> None:
        start.record()
        torch.cuda._sleep(20_000_000)
        end.record()

    op = Op("timed", COMPUTE, timed)
    warmed(torch, device, [op])
    handle = device.submit(op)
    device.wait([handle])
    inner_ns = start.elapsed_time(end) * 1e6
    assert inner_ns <= handle.end_ns - handle.start_ns + 1_000
    assert handle.end_ns - handle.start_ns < inner_ns + 1_000_000


def test_the_clock_holds_over_several_anchors(torch: Any, device: CudaDevice):
    """A kernel after seconds of idling still starts after its submit and ends before the host saw it."""
    kernel = Op("kernel", COMPUTE, lambda: torch.cuda._sleep(200_000))
    warmed(torch, device, [kernel])
    for _ in range(3):
        device.wait([], until=device.now() + RENEW_AFTER_NS + 1)
        submitted = device.now()
        handle = device.submit(kernel)
        device.wait([handle])
        assert submitted <= handle.start_ns < handle.end_ns <= device.now() + 1


def test_a_non_blocking_read_is_whole_once_wait_has_returned_it(torch: Any, device: CudaDevice):
    pinned = torch.empty(64 * MIB // 4, dtype=torch.float32).pin_memory()
    for number in range(1, 6):

        def fill(number: int = number) -> Any:
            torch.cuda._sleep(2_000_000)
            return torch.full((64 * MIB // 4,), float(number), device="cuda:0")

        step = device.submit(Op("fill", COMPUTE, fill))
        read = device.submit(Op("read", D2H, lambda values: pinned.copy_(values, non_blocking=True)), step)
        device.wait([read])
        assert (read.value == number).all()


def test_what_one_stream_made_another_may_use_while_the_kernel_holds_no_reference(
    torch: Any, device: CudaDevice
):
    """The arguments live until the end event: no later allocation may take their memory."""
    source = torch.arange(16 * MIB // 4, dtype=torch.float32).pin_memory()
    sums: list[Handle] = []
    for _ in range(20):
        copy = device.submit(Op("copy", H2D, lambda: source.to("cuda:0", non_blocking=True)))

        def total(values: Any) -> Any:
            torch.cuda._sleep(1_000_000)
            return values.double().sum()

        sums.append(device.submit(Op("sum", COMPUTE, total), copy))
        del copy
    expected = source.double().sum().item()
    for handle in sums:
        device.wait([handle])
        assert handle.value.item() == expected


def test_a_pageable_copy_holds_the_host_inside_submit_and_a_pinned_one_does_not(
    torch: Any, device: CudaDevice
):
    pageable = torch.ones(256 * MIB, dtype=torch.uint8)
    pinned = pageable.pin_memory()
    target = torch.empty_like(pageable, device="cuda:0")

    def copy_of(source: Any) -> Op:
        return Op("copy", H2D, lambda: target.copy_(source, non_blocking=True))

    warmed(torch, device, [copy_of(pageable), copy_of(pinned)])
    shares = []
    for source in (pageable, pinned):
        submitted = device.now()
        handle = device.submit(copy_of(source))
        held_ns = device.now() - submitted
        device.wait([handle])
        shares.append(held_ns / (handle.end_ns - handle.start_ns))
    assert shares[0] > 0.5 > shares[1]


def test_an_out_of_memory_leaves_a_device_that_can_be_used_again(torch: Any, device: CudaDevice):
    free_bytes, _ = torch.cuda.mem_get_info(0)
    greedy = Op("greedy", COMPUTE, lambda: torch.empty(2 * free_bytes, dtype=torch.uint8, device="cuda:0"))
    handle = device.submit(greedy)
    device.wait([handle])
    assert handle.status is Status.FAILED and isinstance(handle.error, torch.cuda.OutOfMemoryError)
    fine = device.submit(Op("fine", COMPUTE, lambda: torch.ones(3, device="cuda:0").sum()))
    device.wait([fine])
    assert fine.value.item() == 3


def test_a_spinning_host_sees_the_end_of_a_kernel(torch: Any, device: CudaDevice):
    kernel = Op("kernel", COMPUTE, lambda: torch.cuda._sleep(200_000))
    warmed(torch, device, [kernel])
    for _ in range(50):
        handle = device.submit(kernel)
        assert device.wait([handle], how="spin") == [handle]
        assert handle.status is Status.OK
