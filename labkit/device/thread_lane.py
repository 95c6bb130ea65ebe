"""A lane of threads: one queue, a thread for each unit, ops in order. On every measuring device the host's own lanes are these."""

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from labkit.schedule import Handle, Lane, Op

if TYPE_CHECKING:
    from labkit.device.live import LiveDevice


@dataclass(slots=True)
class Entry:
    """An op on its way: dropped when the op has ended, and its arguments with it."""

    handle: Handle
    op: Op
    args: tuple[Any, ...]
    deps: list[Handle]
    submit_ns: int
    queued_ns: int


class ThreadLane:
    """A lane of threads, one a unit, that take ops from one queue in order."""

    def __init__(self, device: "LiveDevice", lane: Lane, width: int):
        self._device = device
        self._lane = lane
        self._queue: SimpleQueue[Entry | None] = SimpleQueue()
        self._threads: dict[int, Thread] = {}
        self._retired: list[Thread] = []
        self._width = 0
        self._lock = Lock()
        self.put: Callable[[Entry], None] = self._queue.put
        self.resize(width)

    def resize(self, width: int) -> None:
        """Start threads, or let some end after what is queued now."""
        for _ in range(self._width, width):
            with self._lock:
                unit = next(number for number in range(len(self._threads) + 1) if number not in self._threads)
                name = f"labkit-{self._lane}-{unit}"
                thread = self._threads[unit] = Thread(target=self._serve, args=(unit,), name=name, daemon=True)
            self._device.recorder.open_unit(str(self._lane), unit, self._device.now())
            thread.start()
        for _ in range(width, self._width):
            self._queue.put(None)
        self._width = width

    def close(self) -> None:
        """Let every thread end after what is queued, and wait for that."""
        with self._lock:
            threads = [*self._threads.values(), *self._retired]
        self.resize(0)
        for thread in threads:
            thread.join()

    def _serve(self, unit: int) -> None:
        self._device._on_thread_start(self._lane)
        name = str(self._lane)
        run, get = self._device.run, self._queue.get
        while (entry := get()) is not None:
            run(entry, name, unit)
            entry = None  # the op's arguments and value must not outlive it in this frame
        with self._lock:
            self._retired = [thread for thread in self._retired if thread.is_alive()]
            self._retired.append(self._threads.pop(unit))
        self._device._on_thread_end(self._lane)
        self._device.recorder.close_unit(name, unit, self._device.now())
