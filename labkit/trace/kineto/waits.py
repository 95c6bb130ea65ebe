"""Who waited for what: the host's synchronisations, and streams that wait for another stream's event."""

from bisect import bisect_left
from collections import Counter
from typing import Any, NamedTuple

from labkit.trace.kineto.events import Event
from labkit.trace.kineto.streams import stream_of

_OF_STREAM = ("StreamSynchronize",)
_OF_DEVICE = ("DeviceSynchronize", "CtxSynchronize")
_OF_EVENT = ("EventSynchronize",)
_SYNCS = (*_OF_STREAM, *_OF_DEVICE, *_OF_EVENT)
_BLOCKING_COPIES = ("cudaMemcpy", "hipMemcpy", "hipMemcpyWithStream")

NONE_AT_ALL = "launches and no synchronisation in the file: the host's waits cannot be told from its work"
UNKNOWN = "synchronisations of nothing that is in the file: time of the host's own program"


class Wait(NamedTuple):
    """A call that held the host, and the op (its place in `work`) that it waited for."""

    start_ns: int
    end_ns: int
    awaited: int


class Waits:
    """The waits of a file.

    needs  place of an op → places of the ops that its stream had been told to wait for
    told   whether there is any synchronisation in the file
    """

    def __init__(self, events: list[Event], calls: list[Event], work: list[Event], launches: list[Event | None], notes: Counter[str]):
        self._work, self._notes = work, notes
        self._begun = [min(launch.start_ns, event.start_ns) if launch else event.start_ns for event, launch in zip(work, launches, strict=True)]
        self._by_stream: dict[Any, list[int]] = {}
        for place in sorted(range(len(work)), key=self._begun.__getitem__):
            self._by_stream.setdefault(stream_of(work[place]), []).append(place)
        self._of_correlation = {event.args.get("correlation"): place for place, event in enumerate(work)}
        self._calls = {event.args.get("correlation"): event for event in calls}
        syncs = {event.args.get("correlation"): event for event in events if event.category == "cuda_sync"}
        self.waits = [wait for call in calls if (wait := self._wait(call, syncs.get(call.args.get("correlation")))) is not None]
        self.told = bool(syncs) or any(call.name.endswith(_SYNCS) or call.name in _BLOCKING_COPIES for call in calls)
        if not self.told:
            notes[NONE_AT_ALL] += len(work)
        self.needs: dict[int, list[int]] = {}
        for sync in syncs.values():
            self._between_streams(sync)

    def _wait(self, call: Event, sync: Event | None) -> Wait | None:
        awaited = self._awaited(call, sync)
        if awaited is None or call.end_ns <= call.start_ns:
            self._notes[UNKNOWN] += call.name.endswith(_SYNCS)
            return None
        start_ns = call.start_ns + 1 if call.name in _BLOCKING_COPIES else call.start_ns
        return Wait(start_ns, call.end_ns, awaited)

    def _awaited(self, call: Event, sync: Event | None) -> int | None:
        if call.name in _BLOCKING_COPIES:
            return self._of_correlation.get(call.args.get("correlation"))
        if call.name.endswith(_OF_STREAM):
            if sync is None:
                return self._last_of_all(call, None)
            return self._last(self._on(sync, "stream"), call.start_ns)
        if call.name.endswith(_OF_DEVICE):
            return self._last_of_all(call, sync)
        if call.name.endswith(_OF_EVENT) and sync is not None:
            return self._recorded(sync)
        return None

    def _on(self, sync: Event, which: str) -> list[int]:
        """The ops of the stream that a synchronisation names, on its device or, where it names none, on whichever has that stream."""
        device, stream = sync.args.get("device"), sync.args.get(which)
        places = (places for (of, name), places in self._by_stream.items() if name == stream and device in (of, None))
        return next(places, [])

    def _last(self, places: list[int], before_ns: int) -> int | None:
        """The last op of a stream that was launched before an instant."""
        place = bisect_left(places, before_ns, key=self._begun.__getitem__)
        return places[place - 1] if place else None

    def _last_of_all(self, call: Event, sync: Event | None) -> int | None:
        """Of the last ops of all streams, of one device where that is known, the one that ends last."""
        device = sync.args.get("device") if sync is not None else None
        streams = [places for (of, _), places in self._by_stream.items() if device is None or of == device]
        found = [place for places in streams if (place := self._last(places, call.start_ns)) is not None]
        return max(found, key=lambda place: self._work[place].end_ns, default=None)

    def _recorded(self, sync: Event) -> int | None:
        """The last op before the record of the event that a synchronisation names."""
        record = self._calls.get(sync.args.get("wait_on_cuda_event_record_corr_id"))
        return self._last(self._on(sync, "wait_on_stream"), record.start_ns) if record is not None else None

    def _between_streams(self, sync: Event) -> None:
        """The next op of a stream that waits for another's event depends on that stream's last one before it."""
        call = self._calls.get(sync.args.get("correlation"))
        if sync.args.get("cuda_sync_kind") != "Stream Wait Event" or call is None:
            return
        awaited, places = self._recorded(sync), self._on(sync, "stream")
        following = bisect_left(places, call.start_ns, key=self._begun.__getitem__)
        if awaited is not None and following < len(places):
            self.needs.setdefault(places[following], []).append(awaited)

