"""Streams as lanes: what each is used for names it, and ops of one stream that overlap lie on units of their own."""

from collections import Counter
from typing import Any

from labkit.trace.kineto.events import Event

ROUNDING_NS = 1_000
"""Older files have whole microseconds: neighbours that overlap by less than one do not."""


class Streams:
    """Device work in order of time, and for each op its lane and its unit there.

    lanes  `compute7` of stream 7; `h2d7` where it only copies to the device, `d2h7` from it; `net7` where it only communicates
    """

    def __init__(self, work: list[Event], notes: Counter[str]):
        by_stream: dict[tuple[Any, Any], list[Event]] = {}
        for event in sorted(work, key=lambda each: (each.start_ns, each.end_ns)):
            by_stream.setdefault(stream_of(event), []).append(event)
        several = len({device for device, _ in by_stream}) > 1
        self.names: dict[tuple[Any, Any], str] = {}
        placed: list[tuple[Event, str, int]] = []
        for (device, stream), events in sorted(by_stream.items(), key=lambda pair: str(pair[0])):
            number = f"{device}{int(stream):04d}" if several and _is_number(stream) else str(stream) if _is_number(stream) else "0"
            lane = self.names[device, stream] = f"{_role(events)}{number}"
            placed += [(event, lane, unit) for event, unit in _on_units(events, notes)]
        placed.sort(key=lambda each: (each[0].start_ns, each[0].end_ns))
        self.work = [event for event, _, _ in placed]
        self.lanes = [lane for _, lane, _ in placed]
        self.units = [unit for _, _, unit in placed]


def stream_of(event: Event) -> tuple[Any, Any]:
    """Device and stream of an op; the process and thread that stand for them where the file says nothing else."""
    device = event.args.get("device", event.pid)
    return device, event.args.get("stream", event.tid)


def _is_number(stream: Any) -> bool:
    return isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0


def _role(events: list[Event]) -> str:
    names = [event.name for event in events]
    if all(event.category == "gpu_memcpy" for event in events):
        if all("HtoD" in name for name in names):
            return "h2d"
        if all("DtoH" in name for name in names):
            return "d2h"
    return "net" if all("nccl" in name.lower() or "rccl" in name.lower() for name in names) else "compute"


def _on_units(events: list[Event], notes: Counter[str]) -> list[tuple[Event, int]]:
    """Each op on the first unit that is free when it begins; one cut short where that is a matter of rounding."""
    placed: list[tuple[Event, int]] = []
    last: list[int] = []  # for each unit, the place of its last op
    for event in events:
        unit = next((unit for unit, at in enumerate(last) if placed[at][0].end_ns - event.start_ns <= ROUNDING_NS), len(last))
        if unit == len(last):
            last.append(0)
            notes["ops that overlap another of their stream: on a unit of their own"] += unit > 0
        else:
            before = placed[last[unit]]
            if before[0].end_ns > event.start_ns:
                placed[last[unit]] = before[0]._replace(end_ns=max(event.start_ns, before[0].start_ns)), before[1]
                event = event._replace(start_ns=max(event.start_ns, before[0].start_ns), end_ns=max(event.end_ns, event.start_ns))
        last[unit] = len(placed)
        placed.append((event, unit))
    return placed
