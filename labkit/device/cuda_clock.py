"""CUDA events on the host's monotonic clock.

An anchor is an event whose host time is known: it is recorded on a stream that never has other work, and the host reads its
clock before and after. The time of any completed event is the anchor's plus what CUDA says lies between them. CUDA says
it in float32 milliseconds, which lose microseconds after some seconds: so the anchor is renewed every second.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.device.cuda_api import CudaApi
from labkit.units import NS_PER_MS, NS_PER_S

RENEW_AFTER_NS = NS_PER_S
TRIES = 3


class Anchor(NamedTuple):
    """An event, the host time at which it was recorded, and how far from that it may have been."""

    event: Any
    host_ns: int
    residual_ns: int


class CudaClock:
    """Reads events in the device's time. `now` is the host's clock; only the host thread may call `renew`."""

    def __init__(self, api: CudaApi, now: Callable[[], int]):
        self._api = api
        self._now = now
        self._stream = api.stream()
        self._bracket()  # the first one pays for what CUDA sets up on first use
        self._anchor = self._tightest()
        self.residual_ns = self._anchor.residual_ns

    def renew(self) -> None:
        """Take a new anchor if the last is older than a second. `residual_ns` keeps the largest residual of all anchors."""
        if self._now() - self._anchor.host_ns < RENEW_AFTER_NS:
            return
        try:
            self._anchor = self._tightest()
        except RuntimeError:
            return  # an earlier op broke the GPU's context: that op reports it, not the clock
        self.residual_ns = max(self.residual_ns, self._anchor.residual_ns)

    def span_ns(self, start: Any, end: Any) -> tuple[int, int]:
        """When two completed events happened. Both are read from one anchor, so that their distance is exact."""
        anchor = self._anchor
        return self._since(anchor, start), self._since(anchor, end)

    def _since(self, anchor: Anchor, event: Any) -> int:
        return anchor.host_ns + round(self._api.elapsed_ms(anchor.event, event) * NS_PER_MS)

    def _tightest(self) -> Anchor:
        return min((self._bracket() for _ in range(TRIES)), key=lambda anchor: anchor.residual_ns)

    def _bracket(self) -> Anchor:
        event = self._api.event(blocking=False)
        before = self._now()
        self._api.record(event, self._stream)
        self._api.synchronize(event)
        after = self._now()
        return Anchor(event, (before + after) // 2, (after - before + 1) // 2)
