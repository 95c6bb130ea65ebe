"""Ways of the last-level cache, by the kernel's resctrl: a group of its own for this process, gone at the end.

What is limited is what this process may *fill*. Others may still fill the same ways: the kernel's default group keeps all of them.
See Documentation/filesystems/resctrl.rst of the Linux kernel.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from labkit.allocation.cores import Threads
from labkit.allocation.ledger import Line, applied, not_applied

KEY = "reservation.cache_ways"
ROOT = Path("/sys/fs/resctrl")


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)


class Resctrl:
    """The kernel's interface. `write` and `remove` are what a test replaces: the kernel's files are not plain ones."""

    def __init__(self, root: Path = ROOT, write: Callable[[Path, str], None] = _write, remove: Callable[[Path], None] = os.rmdir):
        self.root, self._write, self._remove = root, write, remove

    def reserve(self, ways: int, threads: Threads, undo: ExitStack) -> Line:
        """Limit this process to so many ways. `undo` gets what removes the group."""
        if not (self.root / "schemata").is_file():
            return not_applied(KEY, ways, f"resctrl is not mounted at {self.root}: this needs a CPU with cache allocation, and its administrator")
        try:
            return self._reserved(ways, threads, undo)
        except (OSError, ValueError) as error:
            return not_applied(KEY, ways, f"resctrl refused it: {getattr(error, 'strerror', None) or error}")

    def _reserved(self, ways: int, threads: Threads, undo: ExitStack) -> Line:
        mask_file = self.root / "info" / "L3" / "cbm_mask"
        if not mask_file.is_file():
            return not_applied(KEY, ways, "this CPU has no cache allocation for its last-level cache (L3)")
        whole = int(mask_file.read_text(), 16)
        least = int((mask_file.parent / "min_cbm_bits").read_text())
        there_are = whole.bit_count()
        if not least <= ways <= there_are:
            return not_applied(KEY, ways, f"this cache has {there_are} ways, of which {least} to {there_are} can be given")
        mask, domains = (1 << ways) - 1, _masks(self.root / "schemata")
        group = self.root / f"labkit-{os.getpid()}"
        group.mkdir()
        undo.callback(self._remove, group)
        self._write(group / "schemata", f"L3:{';'.join(f'{domain}={mask:x}' for domain in domains)}\n")
        for thread in threads.all():
            try:
                self._write(group / "tasks", f"{thread}\n")
            except ProcessLookupError:
                pass  # it has just ended
        return self._read_back(ways, mask, there_are, group, threads)

    def _read_back(self, ways: int, mask: int, there_are: int, group: Path, threads: Threads) -> Line:
        masks = _masks(group / "schemata")
        if not masks or any(found != mask for found in masks.values()):
            return not_applied(KEY, ways, f"the masks that were read back are {[f'{found:x}' for found in masks.values()]}, not {mask:x}")
        members = {int(line) for line in (group / "tasks").read_text().split()}
        astray = set(threads.all()) - members
        if astray:
            return not_applied(KEY, ways, f"{len(astray)} threads were not in the group when it was read back")
        words = f"the worker may fill {ways} of {there_are} ways of each L3 cache; others may fill them, too"
        return applied(KEY, ways, words, {str(domain): f"{found:x}" for domain, found in masks.items()})


def _masks(schemata: Path) -> dict[int, int]:
    """Cache → the ways that a group may fill, of the line `L3:0=7ff;1=7ff`."""
    lines = [line.strip() for line in schemata.read_text().splitlines()]
    line = next((line for line in lines if line.startswith("L3:")), None)
    if line is None:
        raise ValueError("its schemata have no line for L3 (with code and data apart it cannot be set here)")
    pairs = (pair.split("=") for pair in line.removeprefix("L3:").split(";"))
    return {int(domain): int(mask, 16) for domain, mask in pairs}
