"""Fakes of what an allocation turns: threads with cores, a GPU with MPS, and a folder that behaves as the kernel's resctrl does."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from labkit.allocation.gpu import PERCENTAGE
from labkit.allocation.resctrl import Resctrl


class FakeThreads:
    """Threads 1 to `count`, on `cores`. `deaf`: threads whose binding the system forgets; `refuses`: it says no."""

    def __init__(self, count: int = 3, cores: Iterable[int] = range(4), deaf: Iterable[int] = (), refuses: bool = False, can_bind: bool = True):
        self.can_bind = can_bind
        self.placed = {thread: set(cores) for thread in range(1, count + 1)}
        self.deaf, self.refuses = set(deaf), refuses

    def all(self) -> list[int]:
        return list(self.placed)

    def cores_of(self, thread: int) -> set[int]:
        if (thread or 1) not in self.placed:
            raise ProcessLookupError(3, "No such process")
        return set(self.placed[thread or 1])

    def bind(self, thread: int, cores: Iterable[int]) -> None:
        if self.refuses:
            raise PermissionError(1, "Operation not permitted")
        if thread not in self.deaf:
            self.placed[thread] = set(cores)


class FakeGpu:
    """A GPU of 132 multiprocessors under an MPS that obeys, or not. `fails`: CUDA does not start; `mute`: nobody knows the whole."""

    def __init__(self, environment: dict[str, str], obeys: bool = True, mute: bool = False, fails: bool = False, forgets: bool = False):
        self._environment, self._obeys, self._mute, self._fails, self._forgets = environment, obeys, mute, fails, forgets
        self._seen: int | None = None
        self.limit = 1.0

    def started(self) -> bool:
        return self._seen is not None

    def memory_bytes(self) -> int:
        self._start()
        return 80_000_000_000

    def limit_memory(self, share: float) -> None:
        self._start()
        self.limit = 1.0 if self._forgets else share

    def memory_share(self) -> float | None:
        return None if self._mute else self.limit

    def multiprocessors(self) -> int:
        self._start()
        assert self._seen is not None
        return self._seen

    def all_multiprocessors(self) -> int | None:
        return None if self._mute else 132

    def _start(self) -> None:
        """As CUDA does: the variable is read once."""
        if self._fails:
            raise RuntimeError("CUDA driver initialization failed")
        if self._seen is None:
            percent = float(self._environment.get(PERCENTAGE, 100)) if self._obeys else 100.0
            self._seen = max(round(132 * percent / 100), 1)


def fake_resctrl(root: Path, ways: int = 12, least: int = 2, obeys: bool = True, refuses: bool = False) -> Resctrl:
    """resctrl with two caches: a new group keeps all ways until told, `tasks` takes one thread a write, and a group is removed whole."""
    (root / "info" / "L3").mkdir(parents=True)
    (root / "info" / "L3" / "cbm_mask").write_text(f"{(1 << ways) - 1:x}\n")
    (root / "info" / "L3" / "min_cbm_bits").write_text(f"{least}\n")
    (root / "schemata").write_text(f"    MB:0=100;1=100\n    L3:0={(1 << ways) - 1:x};1={(1 << ways) - 1:x}\n")

    def write(path: Path, text: str) -> None:
        if refuses:
            raise PermissionError(13, "Permission denied")
        if path.name == "tasks":
            with path.open("a") as file:
                file.write(text)
        else:
            path.write_text(text if obeys else (root / "schemata").read_text())

    return Resctrl(root, write, shutil.rmtree)


class Mps:
    """A pipe that somebody reads, as an MPS control daemon does."""

    def __init__(self, folder: Path):
        folder.mkdir(exist_ok=True)
        os.mkfifo(folder / "control")
        self.folder = folder
        self._reader = os.open(folder / "control", os.O_RDONLY | os.O_NONBLOCK)

    def close(self) -> None:
        """The daemon ends, and leaves its pipe behind."""
        os.close(self._reader)
