"""The events of a profiler's file, few fields each, whatever else is in it; what cannot be read is counted, and not fatal.

The format: "Trace Event Format", Google, 2016, with the categories and arguments that PyTorch's profiler writes (libkineto,
`output_json.cpp`). Everything but the wanted fields is dropped while the file is parsed, so memory stays at a few times the file.
"""

import gzip
import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from labkit.errors import TraceError

_TOP = {"traceEvents", "deviceProperties", "distributedInfo"}
_ARGS = {"correlation", "stream", "device", "bytes", "size", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "cuda_sync_kind"}
_WANTED = _TOP | _ARGS | {"name", "rank"}

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver")
_KEPT = {*DEVICE_WORK, *CALLS, "cpu_op", "operator", "user_annotation", "cuda_sync"}
_OLD = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime", "Operator": "cpu_op"}

LONGEST_US = 7 * 24 * 3600 * 1_000_000
"""A profile of more than a week is none: what lies further from the others has a wrong time, such as 0."""

_LARGEST_US = 4 * 10**15
_LARGEST = 2**53


class Event(NamedTuple):
    """A complete event: when and where it was, in ns after the first one once `read_events` has returned.

    args  those of `_ARGS` that are whole numbers or texts; not to be changed, events without any share one
    """

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
    reading = _Reading()
    data = _parsed(path, reading)
    about = data if isinstance(data, dict) else {}
    listed = about.pop("traceEvents", None) if isinstance(data, dict) else data
    if not isinstance(listed, list):
        raise TraceError(f"{path} has no list of traceEvents: it is not a trace of PyTorch's profiler")
    reading.dropped["not an event"] += sum(each is not _OTHER and not isinstance(each, Event) for each in listed)
    entries = len(listed)
    events = [event for event in listed if isinstance(event, Event)]
    listed.clear()  # each event is replaced below: what is not held twice is not there twice
    if not events:
        lost = "; ".join(f"{count} with {why}" for why, count in reading.dropped.items() if count)
        raise TraceError(f"{path} has no op, kernel or runtime call in it ({entries} entries{': ' if lost else ''}{lost})")
    return Events(_from_the_first(events, reading.dropped), _device_name(about), _rank(about), +reading.dropped)


def _from_the_first(events: list[Event], dropped: Counter[str]) -> list[Event]:
    """The events in order of time, in ns after the first, without those that lie days from the others; the same list."""
    events.sort(key=attrgetter("end_ns"))
    events.sort(key=attrgetter("start_ns"))
    middle_ns, entries = events[(len(events) - 1) // 2].start_ns, len(events)
    events[:] = [event for event in events if abs(event.start_ns - middle_ns) <= LONGEST_US * 1000]
    dropped["a time that is days from the others"] += entries - len(events)
    first_ns = events[0].start_ns
    for place, event in enumerate(events):
        events[place] = event._replace(start_ns=event.start_ns - first_ns, end_ns=event.end_ns - first_ns)
    return events


class _Other:
    """An entry that is understood and not wanted: metadata, an arrow, an instant, or one that was counted as wrong."""


_OTHER = _Other()
_NOTHING: dict[str, Any] = {}


class _Reading:
    """What is made of each JSON object as soon as it is parsed; names and places that come again are held once."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self._known: dict[Any, Any] = {}

    def slim(self, pairs: list[tuple[str, Any]]) -> Any:
        """An event, what is wanted of another object, or `_NOTHING`."""
        entry = dict(pairs)
        if "ph" in entry:
            return self._event(entry)
        return {name: value for name, value in pairs if name in _WANTED} or _NOTHING

    def _event(self, entry: dict[str, Any]) -> Event | _Other:
        category = entry.get("cat")
        category = _OLD.get(category, category) if isinstance(category, str) else ""
        if entry["ph"] != "X" or category not in _KEPT:
            return _OTHER
        start, length = entry.get("ts"), entry.get("dur", 0)
        if not _is_time(start, _LARGEST_US):
            self.dropped["a time that is none"] += 1
            return _OTHER
        if not _is_time(length, LONGEST_US) or length < 0:
            self.dropped["a duration that is none"] += 1
            return _OTHER
        start_ns = _ns(start)
        name, pid, tid = (self._once(_text_of(entry.get(key, missing))) for key, missing in (("name", "unnamed"), ("pid", 0), ("tid", 0)))
        return Event(start_ns, start_ns + _ns(length), self._once(category), str(name), pid, tid, self._args(entry.get("args")))

    def _args(self, args: Any) -> dict[str, Any]:
        if not isinstance(args, dict) or not args:
            return _NOTHING
        kept = {name: value for name, value in args.items() if name in _ARGS and _is_plain(value)}
        self.dropped["an argument that is neither a whole number nor text, read without it"] += len(kept) < len(args.keys() & _ARGS)
        return kept or _NOTHING

    def _once(self, value: Any) -> Any:
        return self._known.setdefault(value, value)


def _parsed(path: Path, reading: _Reading) -> Any:
    try:
        return json.loads(_text(path), object_pairs_hook=reading.slim)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is not JSON, or cut off: {error}") from error


def _text(path: Path) -> str:
    """The file as Latin-1, a byte a character whatever is in it; JSON's own signs are ASCII, and `_text_of` mends the names."""
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"{path} is a broken or cut off gzip file: {error}") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
    return text.decode("latin-1").removeprefix("\xef\xbb\xbf")


def _text_of(value: Any) -> Any:
    """A whole number as it is, anything else as text that can be written again as UTF-8."""
    if isinstance(value, int):
        return value
    text = str(value)
    if text.isascii():
        return text
    try:
        text = text.encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:
        pass  # it had escapes in it: it is text already
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_time(value: Any, largest: int) -> bool:
    """A number no larger than that: neither NaN nor infinity is."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= largest


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST)


def _ns(us: float) -> int:
    """Microseconds as whole ns; an integer stays exact."""
    return us * 1000 if isinstance(us, int) else int(us) * 1000 + round((us - int(us)) * 1000)


def _device_name(about: dict[str, Any]) -> str:
    properties = about.get("deviceProperties")
    if isinstance(properties, list) and properties and isinstance(properties[0], dict):
        return str(_text_of(properties[0].get("name", "")))
    return ""


def _rank(about: dict[str, Any]) -> int:
    info = about.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else 0
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= _LARGEST else 0
