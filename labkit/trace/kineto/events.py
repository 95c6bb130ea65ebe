"""The events of a profiler's file, few fields each, whatever else is in it; what cannot be read is counted, and not fatal.

The format: "Trace Event Format", Google, 2016, with the categories and arguments that PyTorch's profiler writes (libkineto,
`output_json.cpp`). Everything but the wanted fields is dropped while the file is parsed, so memory stays at a few times the file.
"""

import gzip
import json
import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from labkit.errors import TraceError

_TOP = {"traceEvents", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds", "schemaVersion"}
_ARGS = {"correlation", "stream", "device", "bytes", "size", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "cuda_sync_kind"}
_MORE = {"name", "id", "rank", "world_size"}
_WANTED = _TOP | _ARGS | _MORE

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver")
_KEPT = {*DEVICE_WORK, *CALLS, "cpu_op", "operator", "user_annotation", "cuda_sync"}
_OLD = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime", "Operator": "cpu_op"}


class Event(NamedTuple):
    """A complete event: when and where it was, in ns after the first one once `read_events` has returned."""

    start_ns: int
    end_ns: int
    category: str
    name: str
    pid: Any
    tid: Any
    args: dict[str, Any]


@dataclass
class Events:
    """What a file had in it.

    events   in order of time; times in ns after the first
    dropped  why → how many events were not understood
    device   name of the GPU, "" where the file does not say
    rank     process rank
    """

    events: list[Event]
    device: str
    rank: int
    dropped: Counter[str] = field(default_factory=Counter)


def read_events(path: Path) -> Events:
    """The events of a .json or .json.gz file. Raises TraceError: it cannot be read, is cut off, or is no trace."""
    dropped: Counter[str] = Counter()
    data = _parsed(path, dropped)
    listed = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(listed, list):
        raise TraceError(f"{path} has no list of traceEvents: it is not a trace of PyTorch's profiler")
    events = [event for event in listed if isinstance(event, Event)]
    dropped["not an event"] += sum(not isinstance(each, Event | _Other) for each in listed)
    if not events:
        lost = "; ".join(f"{count} with {why}" for why, count in dropped.items() if count)
        raise TraceError(f"{path} has no op, kernel or runtime call in it ({len(listed)} entries{': ' if lost else ''}{lost})")
    first_ns = min(event.start_ns for event in events)
    moved = [event._replace(start_ns=event.start_ns - first_ns, end_ns=event.end_ns - first_ns) for event in events]
    about = data if isinstance(data, dict) else {}
    return Events(sorted(moved, key=lambda event: (event.start_ns, event.end_ns)), _device_name(about), _rank(about), +dropped)


class _Other:
    """An entry that is understood and not wanted: metadata, an arrow, an instant."""


_OTHER = _Other()


def _parsed(path: Path, dropped: Counter[str]) -> Any:
    def slim(pairs: list[tuple[str, Any]]) -> Any:
        entry = dict(pairs)
        if "ph" in entry:
            return _event(entry, dropped)
        return {name: value for name, value in pairs if name in _WANTED}

    try:
        return json.loads(_text(path), object_pairs_hook=slim)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is not JSON, or cut off: {error}") from error


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path} is a broken or cut off gzip file: {error}") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error


def _event(entry: dict[str, Any], dropped: Counter[str]) -> Event | _Other | None:
    """A complete event of a wanted category; None, counted, for one that is wrong."""
    category = str(entry.get("cat", ""))
    category = _OLD.get(category, category)
    if entry["ph"] != "X" or category not in _KEPT:
        return _OTHER
    start, length = entry.get("ts"), entry.get("dur", 0)
    if not _is_time(start):
        dropped["a time that is none"] += 1
        return _OTHER
    if not _is_time(length) or length < 0:
        dropped["a duration that is none"] += 1
        return _OTHER
    args = entry.get("args")
    start_ns = _ns(start)
    end_ns = start_ns + _ns(length)
    name = str(entry.get("name", "unnamed"))
    return Event(start_ns, end_ns, category, name, _place(entry.get("pid")), _place(entry.get("tid")), args if isinstance(args, dict) else {})


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 1e18


def _ns(us: float) -> int:
    """Microseconds as whole ns; an integer stays exact."""
    return us * 1000 if isinstance(us, int) else int(us) * 1000 + round((us - int(us)) * 1000)


def _place(value: Any) -> Any:
    """A process or thread: a number or a text."""
    return value if isinstance(value, int | str) else str(value)


def _device_name(about: dict[str, Any]) -> str:
    properties = about.get("deviceProperties")
    if isinstance(properties, list) and properties and isinstance(properties[0], dict):
        return str(properties[0].get("name", ""))
    return ""


def _rank(about: dict[str, Any]) -> int:
    info = about.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else 0
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else 0
