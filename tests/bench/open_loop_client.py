"""A client over HTTP that sends when a request is due, whether or not the one before was answered. Latency counts from when a request was due.

One thread, raw sockets that are kept alive, one request on each at a time. The loop sleeps with `select`, whose resolution is microseconds: `epoll`, asyncio's
usual way, rounds up to a millisecond. When every connection is taken, a request waits here, and that is part of its latency.
"""

import asyncio
import gc
import json
import selectors
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from tests.bench.measure import BenchError

HOST, PATH = "127.0.0.1", "/inference"
CONNECTIONS = 128
ECHO = {"batch_ms": 0.0, "item_ms": 0.0}
"""A request that takes no time."""
LEAD_NS = 50_000_000
HANG_S = 30.0
GLANCE_S = 0.1
"""How soon a client whose next request is far off sees that the server has failed."""
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Driven:
    """What a client saw, a value for each request in the order in which they were due.

    latency_ms  from when it was due to when its answer was there
    late_ms     from when it was due to when it was sent
    shared      how many requests shared its batch, by the server's word
    """

    latency_ms: np.ndarray
    late_ms: np.ndarray
    shared: np.ndarray

    @property
    def mean_batch(self) -> float:
        """Requests in a batch, a batch counting once."""
        return len(self.shared) / float((1 / self.shared).sum())


def drive(port: int, due_ns: Sequence[int], body: Mapping[str, float]) -> Driven:
    """Send this request at each of these times (ns from now on, ascending) and wait for all answers. Raises BenchError where the server does not answer."""
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    gc.collect()
    gc.disable()
    try:
        return loop.run_until_complete(asyncio.wait_for(_Client(port, due_ns, body).run(), due_ns[-1] / 1e9 + HANG_S))
    except TimeoutError:
        raise BenchError(f"the server on port {port} did not answer every request within {HANG_S:g} s after the last") from None
    except OSError as error:
        raise BenchError(f"the server on port {port} cannot be reached: {error}") from None
    finally:
        gc.enable()
        loop.close()


class _Client:
    """The state of one drive."""

    def __init__(self, port: int, due_ns: Sequence[int], body: Mapping[str, float]):
        self._port, self._due_ns, self._text = port, due_ns, request_text(body)
        self._idle: list[_Connection] = []
        self._behind: deque[int] = deque()
        self._sent_ns = np.zeros(len(due_ns), np.int64)
        self._done_ns = np.zeros(len(due_ns), np.int64)
        self._shared = np.zeros(len(due_ns), np.int64)
        self._left = len(due_ns)
        self._finished = asyncio.Event()
        self._failure = ""

    async def run(self) -> Driven:
        """Connect, send, wait."""
        loop = asyncio.get_running_loop()
        pairs = [await loop.create_connection(lambda: _Connection(self), HOST, self._port) for _ in range(CONNECTIONS)]
        connections = [connection for _, connection in pairs]
        self._idle = list(connections)
        try:
            start_ns = perf_counter_ns() + LEAD_NS
            due_ns = np.array(self._due_ns, np.int64) + start_ns
            await self._send(due_ns.tolist())
            await self._finished.wait()
        finally:
            for connection in connections:
                connection.close()
        if self._failure:
            raise BenchError(f"the server on port {self._port} failed: {self._failure}")
        return Driven((self._done_ns - due_ns) / _NS_PER_MS, (self._sent_ns - due_ns) / _NS_PER_MS, self._shared)

    async def _send(self, due_ns: list[int]) -> None:
        for number, at_ns in enumerate(due_ns):
            while (left_ns := at_ns - perf_counter_ns()) > 0 and not self._failure:
                await asyncio.sleep(min(left_ns / 1e9, GLANCE_S))
            if self._failure:
                return
            if self._idle:
                self._ask(self._idle.pop(), number)
            else:
                self._behind.append(number)

    def _ask(self, connection: "_Connection", number: int) -> None:
        self._sent_ns[number] = perf_counter_ns()
        connection.ask(number, self._text)

    def answered(self, connection: "_Connection", number: int, shared: int) -> None:
        """An answer is there; its connection takes what waits, the oldest first."""
        self._done_ns[number] = perf_counter_ns()
        self._shared[number] = shared
        self._left -= 1
        if self._behind:
            self._ask(connection, self._behind.popleft())
        else:
            self._idle.append(connection)
        if not self._left:
            self._finished.set()

    def failed(self, words: str) -> None:
        """The server closed a connection or refused a request: the drive is over."""
        self._failure = self._failure or words
        self._finished.set()


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, client: _Client):
        self._client = client
        self._number = -1
        self._received = b""
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, number: int, text: bytes) -> None:
        """Send a request; the client is told of its answer."""
        self._number, self._received = number, b""
        self._transport.write(text)

    def data_received(self, data: bytes) -> None:
        self._received += data
        body = complete_body(self._received)
        if body is None:
            return
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._client.failed(self._received[:300].decode(errors="replace"))
        else:
            self._client.answered(self, self._number, json.loads(body)["shared"])

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closing:
            self._client.failed("it closed a connection")

    def close(self) -> None:
        """No answer is waited for any more."""
        self._closing = True
        self._transport.close()


def request_text(body: Mapping[str, float]) -> bytes:
    """A request of HTTP/1.1 with this body as JSON."""
    payload = json.dumps(dict(body)).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    return head.encode() + payload


def complete_body(received: bytes) -> bytes | None:
    """The body of an answer once all of it is there, None before. Answers without a length are not known here."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return None
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
            return body if len(body) >= length else None
    raise BenchError(f"an answer without a Content-Length: {head[:200]!r}")
