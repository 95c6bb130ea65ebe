"""The link of a simulated machine: what copies do to one another. `SimulatedDevice` asks it where each copy goes on the time line.

With two copy engines or more, or an unknown number, both directions copy at once. A copy that begins while the other direction is
copying keeps `link_duplex_share` of its rate throughout; what begins later no longer changes it.

With one engine (`copy_engines`) both directions share it. It takes what is ready, not what was submitted first (torchrec pull request
4315 found that of real ones). A copy therefore begins as soon as the engine is idle, and lets those through that were placed before it
and come due meanwhile: it lasts longer by them. So no time of the engine is lost or given away twice.
"""

from labkit.device.machine import Machine
from labkit.errors import MachineError

Span = tuple[int, int]

OPPOSITE = {"h2d": "d2h", "d2h": "h2d"}


class Link:
    """Where copies go on the time line of one run. Raises MachineError for a machine with less than one copy engine."""

    def __init__(self, machine: Machine):
        engines = machine.get("copy_engines")
        if engines is not None and engines < 1:
            raise MachineError(f"machine '{machine.name}': copy_engines={engines:g} is not allowed; allowed: 1 or more")
        self._one_engine = engines is not None and engines < 2
        self._duplex_share = machine.get("link_duplex_share")
        self._under_way: dict[str, list[Span]] = {"h2d": [], "d2h": []}
        self._busy: list[Span] = []

    def place(self, role: str, ready: int, duration: int, now: int) -> Span:
        """When a copy begins that is ready then and takes `duration` alone, and how long it takes here [ns].

        now  the host's time: nothing that is placed from here on begins before it
        """
        if self._one_engine:
            return self._on_the_engine(ready, duration, now)
        if not self._duplex_share:
            return ready, duration
        for begins, ends in _from(now, self._under_way[OPPOSITE[role]]):
            if begins <= ready < ends:
                duration = round(duration / self._duplex_share)
                break
        _from(now, self._under_way[role]).append((ready, ready + duration))
        return ready, duration

    def _on_the_engine(self, ready: int, duration: int, now: int) -> Span:
        """Fill the engine's gaps from `ready` on until the copy is done; what lies between becomes one busy span."""
        start = at = ready
        left = duration
        apart: list[Span] = []
        joined_from = None
        for begins, ends in self._busy:
            if ends <= now:
                continue
            if ends <= ready or begins >= at + left:
                apart.append((begins, ends))
                continue
            joined_from = begins if joined_from is None else joined_from
            left -= max(begins - at, 0)
            at = ends
            if left == duration:
                start = at
        end = at + left
        first = start if joined_from is None else min(joined_from, start)
        self._busy = sorted([*apart, (first, end)])
        return start, end - start


def _from(now: int, spans: list[Span]) -> list[Span]:
    """The spans, less those at the front that have ended."""
    while spans and spans[0][1] <= now:
        del spans[0]
    return spans
