"""Continuous batching: what it gains that a sequence joins and leaves between two tokens, instead of waiting for the longest of its batch."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from labkit.data.arrival_times import read_arrivals
from labkit.experiments.experiment import Experiment
from labkit.kernels.continuous import continuous
from labkit.knobs import Knobs, knob
from labkit.schedule.arrivals import Arrivals, OpenLoop, Replay, Shape


class ContinuousKnobs(Knobs):
    """The knobs of a server that generates tokens. Live ones act on the next request or turn; cold ones restart the worker.

    Requests come by a schedule that is made beforehand, whatever the server does (open loop). Times are in milliseconds; latency is that
    of a whole answer, counted from when its request was due.
    """

    rate: float = knob(4.0, "requests that come per second, on average", unit="requests/s", ge=0.01, le=1_000_000)
    arrivals: Shape = knob("poisson", "how they come: evenly, at random, in bursts, rising, or in steps")
    batching: Literal["static", "continuous"] = knob("continuous", "sequences join and leave together, or each for itself between two tokens")
    max_batch: int = knob(16, "sequences that are on their way at once at most", unit="sequences", ge=1, le=1024)
    in_flight: int = knob(2, "turns that are on their way at once", unit="turns", ge=1, le=16)
    queue_limit: int = knob(1000, "requests that may wait; those beyond are rejected", unit="requests", ge=1, le=1_000_000)
    deadline: float | None = knob(None, "requests that have waited so long are dropped; none: never", unit="ms", ge=0, le=3_600_000)
    patience: float | None = knob(None, "clients hang up when they have waited so long for their answer; none: never", unit="ms", ge=0, le=3_600_000)
    slo: float | None = knob(2000.0, "latency that is promised: goodput counts what keeps it", unit="ms", ge=0.001, le=3_600_000)
    prompt_tokens: int = knob(32, "the median length of a prompt", unit="tokens", ge=1, le=512, live=False)
    new_tokens: int = knob(32, "the median number of tokens that a request wants", unit="tokens", ge=1, le=512, live=False)
    tail: float = knob(1.0, "how much longer than most the longest are: 0 is all alike, 1 a few by eight times", ge=0, le=2, live=False)
    model_size: Literal["small", "large"] = knob("small", "the toy decoder", live=False)
    replay: str | None = knob(None, "a CSV file of arrival times in seconds, instead of rate and arrivals", live=False)
    seed: int = knob(0, "of the arrivals, the lengths and the weights", ge=0, le=2**31, live=False)

    policy: ClassVar[str] = "greedy"
    """What every server is asked: whoever fits in joins at once."""
    bucket_by_length: ClassVar[bool] = False
    """What every server is asked: sequences of all lengths share a turn."""


def prepare(knobs: ContinuousKnobs, where: str) -> Any:
    """The workload for one set of cold knobs."""
    from labkit.workloads.decoder_serving import DecoderServing

    return DecoderServing(knobs, where)


def arrivals(knobs: ContinuousKnobs) -> Arrivals:
    """The schedule of requests. Raises DataError where a file of arrival times cannot be used."""
    if knobs.replay is not None:
        return Replay(read_arrivals(Path(knobs.replay)))
    return OpenLoop(knobs.rate, knobs.arrivals, knobs.seed)


def widths(knobs: Any) -> dict[str, int]:
    """Every lane has one unit."""
    return {}


EXPERIMENT = Experiment(
    name="continuous",
    question="What does it gain in throughput and latency that sequences join and leave between tokens?",
    knobs=ContinuousKnobs,
    kernel=continuous,
    prepare=prepare,
    widths=widths,
    arrivals=arrivals,
    presets={"the batch waits for its longest": {"batching": "static"}, "one sequence at a time": {"max_batch": 1}},
)
