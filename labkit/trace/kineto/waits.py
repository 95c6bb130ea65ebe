"""Who waited for what: the host's synchronisations, and streams that wait for another stream's event."""

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from labkit.trace.kineto.events import Event

_OF_STREAM = ("StreamSynchronize",)
_OF_DEVICE = ("DeviceSynchronize", "CtxSynchronize")
_OF_EVENT = ("EventSynchronize",)
_BLOCKING_COPIES = ("cudaMemcpy", "hipMemcpy", "hipMemcpyWithStream")


class Wait(NamedTuple):
    """A call that held the host, and the op (its place in `work`) that it waited for."""

    start_ns: int
    end_ns: int
    awaited: int


class Waits:
    """The waits of a file.

    needs  place of an op → places of the ops that its stream had been told to wait for
    """

    def __init__(self, events: list[Event], calls: list[Event], work: list[Event], launches: list[Event | None]):
        self._work = work
        self._begun = [min(launch.start_ns, event.start_ns) if launch else event.start_ns for event, launch in zip(work, launches, strict=True)]
        self._by_stream: dict[Any, list[int]] = {}
        for place in sorted(range(len(work)), key=self._begun.__getitem__):
            self._by_stream.setdefault(_stream(work[place]), []).append(place)
        self._of_correlation = {event.args.get("correlation"): place for place, event in enumerate(work)}
        self._calls = {event.args.get("correlation"): event for event in calls}
        syncs = {event.args.get("correlation"): event for event in events if event.category == "cuda_sync"}
        self.waits = [wait for call in calls if (wait := self._wait(call, syncs.get(call.args.get("correlation")))) is not None]
        self.waits.sort()
        self._starts = [wait.start_ns for wait in self.waits]
        self.needs: dict[int, list[int]] = {}
        for sync in syncs.values():
            self._between_streams(sync)

    def next_start(self, launch: Event) -> int:
        """When the next wait after the beginning of a launch begins: a launch that blocks is a wait from its own beginning."""
        place = bisect_right(self._starts, launch.start_ns)
        return self._starts[place] if place < len(self._starts) else launch.end_ns

    def _wait(self, call: Event, sync: Event | None) -> Wait | None:
        awaited = self._awaited(call, sync)
        if awaited is None:
            return None
        start_ns = call.start_ns + 1 if call.name in _BLOCKING_COPIES else call.start_ns
        return Wait(start_ns, call.end_ns, awaited)

    def _awaited(self, call: Event, sync: Event | None) -> int | None:
        if call.name in _BLOCKING_COPIES:
            return self._of_correlation.get(call.args.get("correlation"))
        if call.name.endswith(_OF_STREAM):
            stream = sync.args.get("stream") if sync is not None else call.args.get("stream")
            places = self._by_stream.get(stream)
            return self._last(places, call.start_ns) if places is not None else self._last_of_all(call)
        if call.name.endswith(_OF_DEVICE):
            return self._last_of_all(call)
        if call.name.endswith(_OF_EVENT) and sync is not None:
            return self._recorded(sync)
        return None

    def _last(self, places: list[int], before_ns: int) -> int | None:
        """The last op of a stream that was launched before an instant."""
        place = bisect_left(places, before_ns, key=self._begun.__getitem__)
        return places[place - 1] if place else None

    def _last_of_all(self, call: Event) -> int | None:
        """Of the last ops of all streams, the one that ends last."""
        found = [place for places in self._by_stream.values() if (place := self._last(places, call.start_ns)) is not None]
        return max(found, key=lambda place: self._work[place].end_ns, default=None)

    def _recorded(self, sync: Event) -> int | None:
        """The last op before the record of the event that a synchronisation names."""
        record = self._calls.get(sync.args.get("wait_on_cuda_event_record_corr_id"))
        places = self._by_stream.get(sync.args.get("wait_on_stream"))
        return self._last(places, record.start_ns) if record is not None and places else None

    def _between_streams(self, sync: Event) -> None:
        """The next op of a stream that waits for another's event depends on that stream's last one before it."""
        call = self._calls.get(sync.args.get("correlation"))
        if sync.args.get("cuda_sync_kind") != "Stream Wait Event" or call is None:
            return
        awaited, places = self._recorded(sync), self._by_stream.get(sync.args.get("stream"), [])
        following = bisect_left(places, call.start_ns, key=self._begun.__getitem__)
        if awaited is not None and following < len(places):
            self.needs.setdefault(places[following], []).append(awaited)


def _stream(event: Event) -> Any:
    return event.args.get("stream", event.tid)
