"""The tail of a batching server on the CPU: against what the simulated device predicts, and against mosec and LitServe over HTTP.

Everyone serves the same schedule of a Poisson process with the same model (5 ms a batch and 1 ms a request, 8 at most; the first waits 1 ms for others, as mosec knows
no shorter delay), and latency counts from when a request was due. Ours has no HTTP in it: requests come and go within a process. What HTTP and the hand-over
between processes take is seen from echoes, which ask the same servers for nothing; what is left when they are subtracted is shown.

One core is the model's and the other everybody else's, as our device places its threads. mosec is placed like this too, which suits it. LitServe does better as
the system places it, and is left so.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import labkit
from labkit.runner.workers import Workers
from labkit.schedule.arrivals import OpenLoop
from tests.bench.contenders.http_model import APART
from tests.bench.http_server import HttpServer
from tests.bench.measure import Line, Ratio, in_turns, progress, ratio_of, table
from tests.bench.open_loop_client import ECHO, drive
from tests.bench.peers import peer_python

NAME = "batcher-tail"
MAX_BATCH, DELAY_MS = 8, 1
LOADS = (0.3, 0.6, 0.8)
SHARE_TARGET, SLACK_MS, PEER_TARGET = 1.25, 5.0, 0.5
WARM_S = 0.5
SIMULATED = "simulated:l4"
PEERS, CLIENT = ("mosec", "LitServe"), "a server that does nothing"


@dataclass(frozen=True)
class Model:
    """What a batch takes."""

    batch_ms: float
    item_ms: float

    def rate(self, load: float) -> float:
        """Requests per second at this share of what full batches would serve."""
        return load * MAX_BATCH / (self.batch_ms + self.item_ms * MAX_BATCH) * 1000


MODEL, SHORT = Model(5.0, 1.0), Model(2.0, 0.25)


@dataclass(frozen=True)
class Seen:
    """One turn of one contender: latency from when requests were due, p99 of how late they were sent (taken in, for ours), mean batch."""

    p50_ms: float
    p99_ms: float
    late_ms: float
    shared: float

    @classmethod
    def of(cls, latency_ms: np.ndarray, late_ms: np.ndarray, shared: float) -> "Seen":
        """From a value for each request."""
        return cls(*(float(value) for value in (*np.quantile(latency_ms, (0.5, 0.99)), np.quantile(late_ms, 0.99), shared)))


Serve = Callable[[list[int]], Seen]
"""A contender: it serves requests that are due at these times (ns)."""


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    seconds, rounds = (1.0, 1) if quick else (3.0, 5)
    with Workers() as pool, TemporaryDirectory() as folder, _servers() as ports:
        ours, predicted = _ours(pool, Path(folder), "cpu"), _ours(pool, Path(folder), SIMULATED)
        loads = [_at(load, MODEL, seconds, rounds, ours, predicted, ports) for load in LOADS]
        short = _at(0.6, SHORT, seconds / 2, rounds, ours, predicted, ports)
        echoes = _turns({name: _client(port, ECHO) for name, port in ports.items()}, MODEL.rate(0.6), seconds / 2, rounds)
    for each in (*loads, short):
        each.say(echoes)
    _say_echoes(echoes)
    worst = max(loads, key=lambda each: each.ratio("mosec").value)
    return _line(loads, short, echoes, worst, rounds)


# ---- the contenders -------------------------------------------------------------------------------------------


@contextmanager
def _servers() -> Iterator[dict[str, int]]:
    """The ports of servers over HTTP, while they run."""
    asked = ["--max-batch", str(MAX_BATCH), "--delay-ms", str(DELAY_MS)]
    apart = {APART: " ".join(map(str, sorted(cores)))} if len(cores := os.sched_getaffinity(0)) > 1 else {}
    contenders = "tests.bench.contenders"
    with (
        HttpServer(peer_python(), f"{contenders}.mosec_server", [*asked, "--address", "127.0.0.1", "--log-level", "warning"], apart) as mosec,
        HttpServer(peer_python(), f"{contenders}.litserve_server", asked) as litserve,
        HttpServer(peer_python(), f"{contenders}.bare_server", asked, apart) as bare,
    ):
        yield {"mosec": mosec.port, "LitServe": litserve.port, CLIENT: bare.port}


def _client(port: int, body: Mapping[str, float]) -> Serve:
    def serve(due_ns: list[int]) -> Seen:
        driven = drive(port, due_ns, body)
        return Seen.of(driven.latency_ms, driven.late_ms, driven.mean_batch)

    return serve


def _ours(pool: Workers, folder: Path, device: str) -> Callable[[Model], Serve]:
    """The batching experiment in a warm worker, replaying the schedule from a file, as `labkit run batching` does it."""

    def of(model: Model) -> Serve:
        def serve(due_ns: list[int]) -> Seen:
            file = folder / "arrivals.csv"
            file.write_text("time_s\n" + "".join(f"{at_ns / 1e9:.9f}\n" for at_ns in due_ns))
            done = labkit.run(
                "batching", device=device, model="fixed", policy="fixed", max_delay=float(DELAY_MS), max_batch=MAX_BATCH, in_flight=1, slo=None,
                queue_limit=100_000, replay=str(file), seconds=3600.0, warmup=0, pool=pool, **asdict(model),
            ).checked()  # fmt: skip
            assert done.trace is not None
            columns = done.trace.requests
            latency_ns, late_ns = columns["done_ns"] - columns["due_ns"], columns["admitted_ns"] - columns["due_ns"]
            return Seen.of(latency_ns / 1e6, late_ns / 1e6, len(due_ns) / len(np.unique(columns["step"])))

        return serve

    return of


# ---- turns ----------------------------------------------------------------------------------------------------


def _turns(contenders: Mapping[str, Serve], rate: float, seconds: float, rounds: int) -> dict[str, list[Seen]]:
    """What each contender did in each round; within a round all serve the same schedule. A short one before them is not counted."""
    seen: dict[str, list[Seen]] = {name: [] for name in contenders}

    def turn(name: str) -> float:
        number = len(seen[name])
        seen[name].append(contenders[name](arrivals(rate, seconds if number else WARM_S, number)))
        return seen[name][-1].p99_ms

    in_turns({name: lambda name=name: turn(name) for name in contenders}, rounds, lambda words: progress(f"{rate:.0f} requests/s, {words}"))
    return {name: each[1:] for name, each in seen.items()}


def arrivals(rate: float, seconds: float, seed: int) -> list[int]:
    """When requests are due (ns): a Poisson process."""
    return [request.due_ns for request in OpenLoop(rate, "poisson", seed).take(round(seconds * 1e9))]


@dataclass(frozen=True)
class AtLoad:
    """What was measured of one model at one load, round by round."""

    model: Model
    load: float
    seen: Mapping[str, Sequence[Seen]]

    def p99(self, name: str) -> list[float]:
        """Of each round, in ms."""
        return [each.p99_ms for each in self.seen[name]]

    def ratio(self, peer: str) -> Ratio:
        """Our p99 ÷ the peer's."""
        return ratio_of(self.p99("ours"), self.p99(peer))

    @property
    def allowed_share(self) -> float:
        """Our p99 ÷ what is allowed over the prediction for the very same schedule: the median of the rounds."""
        return median(mine / allowed_ms(said) for mine, said in zip(self.p99("ours"), self.p99("predicted"), strict=True))

    def floor(self, peer: str) -> float:
        """The prediction ÷ the peer's p99: what is due to the model and the policy, so that no server could stay below it."""
        return ratio_of(self.p99("predicted"), self.p99(peer)).value

    def left(self, peer: str, echo_ms: float) -> float:
        """Our p99 ÷ the peer's when so much of the peer's is put down to HTTP."""
        return median(mine / (theirs - echo_ms) if theirs > echo_ms else float("inf") for mine, theirs in zip(self.p99("ours"), self.p99(peer), strict=True))

    def say(self, echoes: Mapping[str, Sequence[Seen]]) -> None:
        """A table, and the ratios."""
        print(f"  a batch takes {self.model.batch_ms:g} ms + {self.model.item_ms:g} ms a request, load {self.load:g}: {self.model.rate(self.load):.0f} requests/s")
        names = ("predicted", "ours", *PEERS)
        print(table(["", "p50 ms", "p99 ms", "late p99 ms", "mean batch"], [_row(name, self.seen[name]) for name in names]))
        print(f"    ours of predicted {self.ratio('predicted')}, {self.allowed_share:.2f} of what is allowed")
        for peer in PEERS:
            typical, tail = (_middle(echoes[peer], what) for what in ("p50_ms", "p99_ms"))
            shares = f"a server that costs nothing {self.floor(peer):.2f}; without an echo's p50 {self.left(peer, typical):.2f}, without its p99 {self.left(peer, tail):.2f}"
            print(f"    ours of {peer} {self.ratio(peer)}, {shares}")


def allowed_ms(predicted_ms: float) -> float:
    """The largest p99 that is near enough to the prediction."""
    return max(SHARE_TARGET * predicted_ms, predicted_ms + SLACK_MS)


def _at(
    load: float, model: Model, seconds: float, rounds: int, ours: Callable[[Model], Serve], predicted: Callable[[Model], Serve], ports: Mapping[str, int]
) -> AtLoad:
    mine = ours(model)
    contenders = {"ours": mine, **{peer: _client(ports[peer], asdict(model)) for peer in PEERS}, "ours again": mine}
    seen = _turns(contenders, model.rate(load), seconds, rounds)
    said = [predicted(model)(arrivals(model.rate(load), seconds, number)) for number in range(1, rounds + 1)]
    return AtLoad(model, load, {**seen, "predicted": said})


# ---- what is said ---------------------------------------------------------------------------------------------


def _middle(seen: Sequence[Seen], what: str) -> float:
    return median(getattr(each, what) for each in seen)


def _row(name: str, seen: Sequence[Seen]) -> list[str]:
    late = "" if name == "predicted" else f"{_middle(seen, 'late_ms'):.2f}"
    return [name, f"{_middle(seen, 'p50_ms'):.2f}", f"{_middle(seen, 'p99_ms'):.2f}", late, f"{_middle(seen, 'shared'):.2f}"]


def _say_echoes(echoes: Mapping[str, Sequence[Seen]]) -> None:
    print(f"  echoes over HTTP, a model that takes no time, {MODEL.rate(0.6):.0f} requests/s; {CLIENT} shows the client's own part")
    print(table(["", "p50 ms", "p99 ms", "late p99 ms", "mean batch"], [_row(name, seen) for name, seen in echoes.items()]))


def _line(loads: Sequence[AtLoad], short: AtLoad, echoes: Mapping[str, Sequence[Seen]], worst: AtLoad, rounds: int) -> Line:
    ratio = worst.ratio("mosec")
    near = all(each.allowed_share <= 1 for each in loads)
    print(f"  within what the prediction allows at each load: {'yes' if near else 'NO'}")
    print(f"  of mosec's p99 at the worst load {ratio}, a server that costs nothing {worst.floor('mosec'):.2f}; target ≤ {PEER_TARGET:g}")
    return Line(
        name=NAME, ours=median(worst.p99("ours")), peer=median(worst.p99("mosec")), unit="ms (p99)", ratio=ratio.value, low=ratio.low, high=ratio.high,
        aa_ratio=worst.ratio("ours again").value, rounds=rounds, passed=near and ratio.value <= PEER_TARGET,
        bound=f"at each load p99 <= max({SHARE_TARGET:g} predicted, predicted + {SLACK_MS:g} ms), and <= {PEER_TARGET:g} of mosec's",
        details={"loads": [_details(each) for each in loads], "short_model": _details(short), "echoes": _medians(echoes)},
    )  # fmt: skip


def _details(each: AtLoad) -> dict[str, object]:
    of_peers = {peer: {**asdict(each.ratio(peer)), "floor": each.floor(peer)} for peer in PEERS}
    return {"load": each.load, **asdict(each.model), "allowed_share": each.allowed_share, "of_peers": of_peers, "seen": _medians(each.seen)}


def _medians(seen: Mapping[str, Sequence[Seen]]) -> dict[str, dict[str, float]]:
    return {name: {what: _middle(each, what) for what in asdict(each[0])} for name, each in seen.items()}
