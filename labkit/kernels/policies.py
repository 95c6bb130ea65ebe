"""Batching policies: which requests to send now, or how long to wait for more.

A policy is asked whenever the device could take another batch. It sees who waits, what it has learnt of how long batches take, and the
knobs in force; it answers with a bucket and a number of requests, or with the time at which it wants to be asked again.

    none      one request at a time, at once
    fixed     when `max_batch` wait, or when the oldest has waited `max_delay`
    greedy    at once when the device has nothing to do, else when `max_batch` wait
    adaptive  as greedy, but no larger than the oldest request's SLO allows, and without those that cannot keep it any more

Times are whole nanoseconds and are compared as `now >= due + delay`: a sum that was waited for is reached, whatever the rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from labkit.kernels.waiting import Ticket, Waiting
from labkit.units import NS_PER_MS

MARGIN = 1.1
"""What a batch is expected to take longer than it does on average, where an SLO hangs on it."""


class Send(NamedTuple):
    """`count` requests of a bucket go now; or none, and the policy wants to be asked again at `ask_ns` (None: when something happens)."""

    bucket: int
    count: int
    ask_ns: int | None = None


WAIT = Send(0, 0)


class ServiceTimes:
    """How long a batch of n takes, a + b·n, learnt from those that were served; older ones count less and less."""

    FORGET = 0.98

    def __init__(self) -> None:
        self._weight = self._n = self._nn = self._t = self._nt = 0.0

    def learn(self, count: int, took_ns: int) -> None:
        """A batch of `count` took so long, from when the device took it up."""
        keep = self.FORGET
        self._weight = keep * self._weight + 1
        self._n = keep * self._n + count
        self._nn = keep * self._nn + count * count
        self._t = keep * self._t + took_ns
        self._nt = keep * self._nt + count * took_ns

    @property
    def known(self) -> bool:
        """Whether anything was learnt."""
        return self._weight > 0

    def expected_ns(self, count: int) -> float:
        """How long a batch of `count` will take. Of one size only, a larger one is taken to take longer in proportion."""
        fixed_ns, each_ns = self._line()
        return max(fixed_ns + each_ns * count, 0.0)

    def largest_within(self, ns: float) -> int:
        """The largest batch that is expected to be done within `ns`; 0 where not even one is."""
        fixed_ns, each_ns = self._line()
        if fixed_ns + each_ns > ns:
            return 0
        return int((ns - fixed_ns) / each_ns) if each_ns > 0 else 1 << 30

    def _line(self) -> tuple[float, float]:
        if not self.known:
            return 0.0, 0.0
        n, t = self._n / self._weight, self._t / self._weight
        spread = self._nn / self._weight - n * n
        if spread < 0.01:
            return 0.0, t / n
        slope = max((self._nt / self._weight - n * t) / spread, 0.0)
        fixed = t - slope * n
        return (fixed, slope) if fixed >= 0 else (0.0, t / n)


def none(waiting: Waiting, now_ns: int, knobs: Any, in_flight: int, times: ServiceTimes) -> Send:
    """One request at a time, the oldest."""
    oldest = waiting.oldest()
    return WAIT if oldest is None else Send(oldest.bucket, 1)


def fixed(waiting: Waiting, now_ns: int, knobs: Any, in_flight: int, times: ServiceTimes) -> Send:
    """A full batch, or what there is when the oldest has waited `max_delay`."""
    oldest = waiting.oldest()
    if oldest is None:
        return WAIT
    ask_ns = oldest.due_ns + int(knobs.max_delay * NS_PER_MS)
    if now_ns >= ask_ns:
        return Send(oldest.bucket, knobs.max_batch)
    bucket, size = _fullest_or_oldest(waiting, oldest, knobs.max_batch)
    return Send(bucket, knobs.max_batch) if size >= knobs.max_batch else Send(0, 0, ask_ns)


def greedy(waiting: Waiting, now_ns: int, knobs: Any, in_flight: int, times: ServiceTimes) -> Send:
    """What there is when the device has nothing to do, else a full batch only."""
    oldest = waiting.oldest()
    if oldest is None:
        return WAIT
    if in_flight == 0:
        return Send(oldest.bucket, knobs.max_batch)
    bucket, size = _fullest_or_oldest(waiting, oldest, knobs.max_batch)
    return Send(bucket, knobs.max_batch) if size >= knobs.max_batch else WAIT


def adaptive(waiting: Waiting, now_ns: int, knobs: Any, in_flight: int, times: ServiceTimes) -> Send:
    """As greedy, but so small that the oldest keeps its SLO. Where it cannot, the batch is as large as it may be: the queue must shrink."""
    send = greedy(waiting, now_ns, knobs, in_flight, times)
    if send.count == 0 or not times.known:
        return send
    oldest = next(iter(waiting.heads(send.bucket)))
    left_ns = oldest.due_ns + oldest.slo_ns - now_ns if oldest.slo_ns else 0
    fits = times.largest_within(left_ns / MARGIN)
    return send if fits == 0 else send._replace(count=min(send.count, fits))


def hopeless(ticket: Ticket, now_ns: int, times: ServiceTimes) -> bool:
    """Whether a request cannot keep its SLO any more, even if it were sent now and alone."""
    return bool(ticket.slo_ns) and times.known and now_ns + times.expected_ns(1) > ticket.due_ns + ticket.slo_ns


POLICIES: dict[str, Callable[[Waiting, int, Any, int, ServiceTimes], Send]] = {
    "none": none,
    "fixed": fixed,
    "greedy": greedy,
    "adaptive": adaptive,
}


def _fullest_or_oldest(waiting: Waiting, oldest: Ticket, enough: int) -> tuple[int, int]:
    """The oldest's bucket where enough wait there, else the one in which the most wait."""
    size = waiting.size_of(oldest.bucket)
    return (oldest.bucket, size) if size >= enough else waiting.fullest()
