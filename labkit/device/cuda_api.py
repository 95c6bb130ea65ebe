"""The seam between the cuda device and CUDA: the few calls it makes, and torch's answer to them.

The device never calls `torch.cuda` itself. Tests put a recording fake in this place, so that the order of stream
and event calls can be checked where there is no GPU.
"""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from labkit.errors import NoSuchDevice


class CudaApi(Protocol):
    """What the cuda device asks of one GPU. Streams and events are opaque to it."""

    def set_device(self) -> None:
        """Make this GPU the calling thread's current one."""
        ...

    def device_name(self) -> str:
        """What the GPU calls itself: "NVIDIA H200"."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions that belong in a run's record, by name."""
        ...

    def stream(self) -> Any:
        """A new stream."""
        ...

    def event(self, blocking: bool) -> Any:
        """A new event that keeps its time; `blocking`: a thread that waits for it sleeps and burns no CPU."""
        ...

    def use_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """While this is entered, the calling thread's CUDA work goes to `stream`."""
        ...

    def record(self, event: Any, stream: Any) -> None:
        """Enqueue `event` on `stream`."""
        ...

    def wait_event(self, stream: Any, event: Any) -> None:
        """What is enqueued on `stream` from now on waits for `event`."""
        ...

    def query(self, event: Any) -> bool:
        """Whether `event` has completed. Raises RuntimeError where work before it failed."""
        ...

    def synchronize(self, event: Any) -> None:
        """Hold the calling thread until `event` has completed. Raises RuntimeError where work before it failed."""
        ...

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two completed events (float32: microseconds are lost after some seconds)."""
        ...

    def synchronize_all(self) -> None:
        """Hold the calling thread until the GPU is idle."""
        ...


class TorchCuda:
    """`CudaApi` by way of `torch.cuda`, for the GPU of this index. Raises NoSuchDevice where there is none."""

    def __init__(self, index: int):
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not 0 <= index < count:
            there_are = (
                f"cuda:0 to cuda:{count - 1}"
                if count
                else "no GPU that torch can see; use cpu or simulated:h200"
            )
            raise NoSuchDevice(f"there is no cuda:{index} here; there is {there_are}")
        self._torch = torch
        self._device = torch.device("cuda", index)

    def set_device(self) -> None:
        self._torch.cuda.set_device(self._device)

    def device_name(self) -> str:
        return self._torch.cuda.get_device_name(self._device)

    def versions(self) -> dict[str, str]:
        major, minor = self._torch.cuda.get_device_capability(self._device)
        torch, cuda = str(self._torch.__version__), str(self._torch.version.cuda)
        return {"torch_version": torch, "cuda_version": cuda, "gpu_capability": f"{major}.{minor}"}

    def stream(self) -> Any:
        return self._torch.cuda.Stream(device=self._device)

    def event(self, blocking: bool) -> Any:
        return self._torch.cuda.Event(enable_timing=True, blocking=blocking)

    def use_stream(self, stream: Any) -> AbstractContextManager[Any]:
        return self._torch.cuda.stream(stream)

    def record(self, event: Any, stream: Any) -> None:
        event.record(stream)

    def wait_event(self, stream: Any, event: Any) -> None:
        stream.wait_event(event)

    def query(self, event: Any) -> bool:
        return event.query()

    def synchronize(self, event: Any) -> None:
        event.synchronize()

    def elapsed_ms(self, start: Any, end: Any) -> float:
        return start.elapsed_time(end)

    def synchronize_all(self) -> None:
        self._torch.cuda.synchronize(self._device)
