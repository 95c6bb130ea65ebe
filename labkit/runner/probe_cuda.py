"""Probes of a CUDA GPU: its rates, its link, and what a launch costs. Times on the GPU are taken by CUDA events.

What is measured is what large work reaches, so the shares of the peaks that a data sheet needs are 1 here.
"""

import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from typing import Any

from labkit.device.open import Opening, open_device
from labkit.runner.probe import LEAST, Probe, median_ns, per_second
from labkit.runner.probe_device import overheads_on
from labkit.schedule import Lane, Op
from labkit.units import NS_PER_MS, NS_PER_S

GEMM_SIDE = 8192
COPY_BYTES = 1 << 30
LINK_BYTES = 64 << 20
BURST = 100
NAP_CYCLES = 400_000


def cuda_probes(index: int = 0) -> list[Probe]:
    """The probes of one GPU."""
    pinned = f"{LINK_BYTES >> 20} MiB of pinned memory, timed by CUDA events"

    def on_gpu(measure: Callable[[Any, float], dict[str, float]]) -> Callable[[float], dict[str, float]]:
        return lambda seconds: _on_gpu(index, measure, seconds)

    return [
        Probe("GPU memory size", "as the driver reports it", on_gpu(size)),
        Probe("GPU arithmetic", f"product of two {GEMM_SIDE} x {GEMM_SIDE} matrices, of 16 bits and of fp32 (TF32 allowed); the share is 1 because it is measured", on_gpu(gemm)),
        Probe("GPU memory", "a copy of up to 1 GiB, reads and writes count; the share is 1 because it is measured", on_gpu(hbm)),
        Probe("launching", f"host time of {BURST} one-element additions in eager PyTorch", on_gpu(launch)),
        Probe("the shortest kernel", f"{BURST} one-element additions in a CUDA graph", on_gpu(shortest)),
        Probe("copying to the GPU", pinned, on_gpu(h2d)),
        Probe("copying from the GPU", pinned, on_gpu(d2h)),
        Probe("copying both ways", f"{pinned}, against one way alone", on_gpu(duplex)),
        Probe("pageable copying", f"{LINK_BYTES >> 20} MiB of ordinary memory to the GPU, host time", on_gpu(pageable)),
        Probe("a copy of nothing", f"{BURST} pinned copies of 4 bytes in a row, timed by CUDA events", on_gpu(latency)),
        Probe("waking after a kernel", "ops of about 0.3 ms on the compute lane of the cuda device, blocking wait", on_gpu(wake)),
        Probe("power limit", "NVML's enforced limit", on_gpu(power)),
    ]


def size(device: Any, _: float) -> dict[str, float]:
    """Device memory."""
    import torch

    return {"gpu_memory_bytes": torch.cuda.get_device_properties(device).total_memory}


def gemm(device: Any, seconds: float) -> dict[str, float]:
    """The rates of a large matrix product: 16 bits (bf16 where the GPU has it, else fp16), and fp32 (TF32 where it has it).

    Random data, as power depends on it.
    """
    import torch

    half = torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    allowed = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True  # as convolutions do by default
        rates = {dtype: _product_rate(device, dtype, seconds / 2) for dtype in (half, torch.float32)}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed
    return {"gpu_flop_per_s": rates[half], "gpu_fp32_flop_per_s": rates[torch.float32], "gpu_flop_share": 1.0}


def _product_rate(device: Any, dtype: Any, seconds: float) -> float:
    import torch

    left, right = (torch.randn(GEMM_SIDE, GEMM_SIDE, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return 2 * GEMM_SIDE**3 * NS_PER_S / _event_ns(lambda: torch.mm(left, right, out=out), seconds)


def hbm(device: Any, seconds: float) -> dict[str, float]:
    """The rate of a copy within the GPU."""
    import torch

    count = min(COPY_BYTES, torch.cuda.mem_get_info(device)[0] // 8)
    source = torch.ones(count, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    rate = 2 * count * NS_PER_S / _event_ns(lambda: target.copy_(source), seconds)
    return {"hbm_bytes_per_s": rate, "hbm_share": 1.0}


def launch(device: Any, seconds: float) -> dict[str, float]:
    """Host time of one launch. The GPU is idle before each burst, and a burst fits into its queue."""
    import torch

    value = torch.zeros(1, device=device)
    bursts = []
    end = time.perf_counter() + seconds
    while len(bursts) <= LEAST or time.perf_counter() < end:
        torch.cuda.synchronize(device)
        begun_ns = time.perf_counter_ns()
        for _ in range(BURST):
            value.add_(1.0)
        bursts.append(time.perf_counter_ns() - begun_ns)
    torch.cuda.synchronize(device)
    return {"launch_ns": median(bursts[1:]) / BURST}


def shortest(device: Any, seconds: float) -> dict[str, float]:
    """A kernel that has nothing to do, without the host in its way."""
    import torch

    value = torch.zeros(1, device=device)
    value.add_(1.0)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(BURST):
            value.add_(1.0)
    return {"gpu_min_kernel_ns": _event_ns(graph.replay, seconds) / BURST}


def h2d(device: Any, seconds: float) -> dict[str, float]:
    """Pinned, host to device."""
    on_host, on_device = _link_buffers(device)
    copy_ns = _event_ns(lambda: on_device.copy_(on_host, non_blocking=True), seconds)
    return {"link_h2d_bytes_per_s": LINK_BYTES * NS_PER_S / copy_ns}


def d2h(device: Any, seconds: float) -> dict[str, float]:
    """Pinned, device to host."""
    on_host, on_device = _link_buffers(device)
    copy_ns = _event_ns(lambda: on_host.copy_(on_device, non_blocking=True), seconds)
    return {"link_d2h_bytes_per_s": LINK_BYTES * NS_PER_S / copy_ns}


def duplex(device: Any, seconds: float) -> dict[str, float]:
    """The share of its rate that a direction keeps while the other copies too."""
    import torch

    inward, outward = _link_buffers(device), _link_buffers(device)
    there, back = torch.cuda.Stream(device), torch.cuda.Stream(device)

    def both() -> None:
        with torch.cuda.stream(there):
            inward[1].copy_(inward[0], non_blocking=True)
        with torch.cuda.stream(back):
            outward[0].copy_(outward[1], non_blocking=True)
        torch.cuda.synchronize(device)

    def one_after_the_other() -> None:
        inward[1].copy_(inward[0], non_blocking=True)
        outward[0].copy_(outward[1], non_blocking=True)
        torch.cuda.synchronize(device)

    ratio = median_ns(one_after_the_other, seconds / 2) / median_ns(both, seconds / 2)
    return {"link_duplex_share": min(max(ratio / 2, 0.5), 1.0)}


def pageable(device: Any, seconds: float) -> dict[str, float]:
    """Memory that is not pinned: the host is held for as long as it takes."""
    import torch

    on_host = torch.ones(LINK_BYTES, dtype=torch.uint8)
    on_device = torch.empty_like(on_host, device=device)

    def copy() -> None:
        on_device.copy_(on_host)
        torch.cuda.synchronize(device)

    return {"link_pageable_bytes_per_s": per_second(LINK_BYTES, copy, seconds)}


def latency(device: Any, seconds: float) -> dict[str, float]:
    """What a copy costs before the first byte."""
    import torch

    on_host = torch.ones(1).pin_memory()
    on_device = torch.zeros(1, device=device)

    def copy_often() -> None:
        for _ in range(BURST):
            on_device.copy_(on_host, non_blocking=True)

    return {"link_latency_ns": _event_ns(copy_often, seconds) / BURST}


def wake(device: Any, seconds: float) -> dict[str, float]:
    """From the end of a kernel to the host running again, through the cuda device."""
    import torch

    nap = Op("nap", Lane("compute"), lambda: torch.cuda._sleep(NAP_CYCLES))
    with closing(open_device(f"cuda:{device.index}", Opening(widths={}))) as opened:
        return {"wake_ns": overheads_on(opened, nap, seconds)["wake_ns"]}


def power(device: Any, _: float) -> dict[str, float]:
    """The power limit in force."""
    import pynvml
    import torch

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
        return {"power_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000}
    finally:
        pynvml.nvmlShutdown()


def _on_gpu(index: int, measure: Callable[[Any, float], dict[str, float]], seconds: float) -> dict[str, float]:
    """Measure on this GPU, and leave none of its memory in use."""
    import torch

    try:
        with torch.cuda.device(index):
            return measure(torch.device("cuda", index), seconds)
    finally:
        torch.cuda.empty_cache()


def _link_buffers(device: Any) -> tuple[Any, Any]:
    """A pinned host buffer and a device buffer of the same size."""
    import torch

    on_host = torch.ones(LINK_BYTES, dtype=torch.uint8, pin_memory=True)
    return on_host, torch.ones(LINK_BYTES, dtype=torch.uint8, device=device)


def _event_ns(work: Callable[[], object], seconds: float) -> float:
    """The median time that the GPU takes for what `work` enqueues on the current stream."""
    import torch

    for _ in range(3):
        work()
    torch.cuda.synchronize()
    durations = []
    end = time.perf_counter() + seconds
    while len(durations) < LEAST or time.perf_counter() < end:
        begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        done.record()
        done.synchronize()
        durations.append(begin.elapsed_time(done) * NS_PER_MS)
    return median(durations)
