"""A share of a real GPU: memory by PyTorch's allocator, compute units by MPS. Set before the first CUDA work of the worker.

MPS limits the multiprocessors that a process may use by an environment variable which CUDA reads once, when it starts
(`CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`; NVIDIA "Multi-Process Service", appendix "Environment variables"). The process then sees only
its part of the multiprocessors, and that number is what is read back.
"""

import errno
import os
import stat
from collections.abc import MutableMapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from labkit.allocation.ledger import Line, applied, not_applied
from labkit.units import format_bytes

MEMORY, COMPUTE = "reservation.gpu_memory", "reservation.gpu_compute"
PERCENTAGE, PIPES = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY"
DEFAULT_PIPES = "/tmp/nvidia-mps"
NEAR_MULTIPROCESSORS = 2
"""MPS rounds to whole multiprocessors, and on some GPUs to pairs of them."""

_CORES_OF_MULTIPROCESSOR = {(7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (12, 0): 128}
"""FP32 cores by compute capability: CUDA C++ programming guide, "Compute capabilities"."""


class Gpu(Protocol):
    """What is asked of one GPU, before and after CUDA has started in this process."""

    def started(self) -> bool:
        """Whether CUDA has started in this process: what it reads then can no longer be changed."""
        ...

    def memory_bytes(self) -> int:
        """All of its memory. Starts CUDA."""
        ...

    def limit_memory(self, share: float) -> None:
        """Let this process's allocator have so much. Starts CUDA. Raises RuntimeError."""
        ...

    def memory_share(self) -> float | None:
        """The limit that is in force; None where this version of torch cannot say."""
        ...

    def multiprocessors(self) -> int:
        """Multiprocessors that this process sees. Starts CUDA."""
        ...

    def all_multiprocessors(self) -> int | None:
        """Multiprocessors that the GPU has, whoever asks; None where nobody can say."""
        ...


class TorchGpu:
    """`Gpu` by way of torch and NVML."""

    def __init__(self, index: int):
        self._index = index

    def started(self) -> bool:
        import torch

        return torch.cuda.is_initialized()

    def memory_bytes(self) -> int:
        import torch

        return torch.cuda.get_device_properties(self._index).total_memory

    def limit_memory(self, share: float) -> None:
        import torch

        torch.cuda.set_per_process_memory_fraction(share, self._index)

    def memory_share(self) -> float | None:
        import torch

        read = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not every torch that labkit allows has it
        return None if read is None else read(self._index)

    def multiprocessors(self) -> int:
        import torch

        return torch.cuda.get_device_properties(self._index).multi_processor_count

    def all_multiprocessors(self) -> int | None:
        """From the number of cores, which NVML tells of the whole GPU."""
        import pynvml
        import torch

        seen = torch.cuda.get_device_properties(self._index)
        cores_of_one = _CORES_OF_MULTIPROCESSOR.get((seen.major, seen.minor))
        if cores_of_one is None:
            return None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return None
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{seen.uuid}")
            return pynvml.nvmlDeviceGetNumGpuCores(handle) // cores_of_one
        except (pynvml.NVMLError, AttributeError):  # an old driver or torch cannot say
            return None
        finally:
            pynvml.nvmlShutdown()


def mps_absent(environment: MutableMapping[str, str]) -> str:
    """Why no MPS control daemon can be reached from here; "" where one reads its pipe."""
    pipe = Path(environment.get(PIPES) or DEFAULT_PIPES) / "control"
    try:
        if not stat.S_ISFIFO(pipe.stat().st_mode):
            return f"{pipe} is not the pipe of an MPS control daemon"
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        why = "nobody reads it" if error.errno == errno.ENXIO else error.strerror
        return f"no MPS control daemon runs here ({pipe}: {why}); green contexts are not tried"
    return ""


def share_compute(gpu: Gpu, share: float, environment: MutableMapping[str, str], undo: ExitStack) -> Line:
    """Limit this process to a share of the multiprocessors. `undo` gets what takes the variable away again."""
    absent = mps_absent(environment)
    if absent:
        return not_applied(COMPUTE, share, absent)
    text = f"{share * 100:g}"
    before = environment.get(PERCENTAGE)
    if gpu.started() and before != text:
        pass  # too late to set it; what this process sees tells whether an earlier run has set the same
    else:
        environment[PERCENTAGE] = text
        undo.callback(_put_back, environment, before)
    return _read_back(gpu, share)


def _read_back(gpu: Gpu, share: float) -> Line:
    try:
        seen, there_are = gpu.multiprocessors(), gpu.all_multiprocessors()
    except RuntimeError as error:
        return not_applied(COMPUTE, share, f"CUDA did not start: {error}")
    if there_are is None:
        return not_applied(COMPUTE, share, "it was asked of MPS, but how many multiprocessors this GPU has in all cannot be read here, so nothing shows that it acts")
    if abs(seen - share * there_are) > NEAR_MULTIPROCESSORS or (share < 1 and seen >= there_are):
        return not_applied(COMPUTE, share, f"MPS was asked for it, but this process sees {seen} of {there_are} multiprocessors")
    return applied(COMPUTE, share, f"MPS: this process sees {seen} of {there_are} multiprocessors; memory bandwidth is not divided", seen)


def share_memory(gpu: Gpu, share: float, undo: ExitStack) -> Line:
    """Limit this process's allocator to a share of the memory. `undo` gets what lifts the limit."""
    try:
        gpu.limit_memory(share)
        undo.callback(gpu.limit_memory, 1.0)
        in_force, whole = gpu.memory_share(), gpu.memory_bytes()
    except RuntimeError as error:
        return not_applied(MEMORY, share, f"CUDA refused it: {error}")
    if in_force is None:
        return not_applied(MEMORY, share, "it was set, but this version of torch cannot read it back")
    if abs(in_force - share) > 1e-9:
        return not_applied(MEMORY, share, f"{in_force:g} was read back")
    words = f"PyTorch's allocator gets at most {format_bytes(share * whole)} of {format_bytes(whole)}; what CUDA itself takes is not counted"
    return applied(MEMORY, share, words, in_force)


def _put_back(environment: MutableMapping[str, str], before: str | None) -> None:
    if before is None:
        environment.pop(PERCENTAGE, None)
    else:
        environment[PERCENTAGE] = before
