"""Dynamic batching: what throughput costs in tail latency, and which policy buys it best."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from labkit.data.arrival_times import read_arrivals
from labkit.data.locate import datasets_root
from labkit.errors import DataError
from labkit.experiments.experiment import Experiment
from labkit.kernels.batching import batching
from labkit.knobs import Knobs, knob
from labkit.schedule.arrivals import Arrivals, OpenLoop, Replay, Shape

_FIXED_ONLY = "acts on the fixed model only"
_NO_THREADS = "compute threads are those of the cpu device"


class BatchingKnobs(Knobs):
    """The knobs of a server. Live ones act on the next request or batch; cold ones restart the worker.

    Requests come by a schedule that is made beforehand, whatever the server does (open loop). Times are in milliseconds; latency is
    counted from when a request was due.
    """

    rate: float = knob(50.0, "requests that come per second, on average", unit="requests/s", ge=0.01, le=1_000_000)
    arrivals: Shape = knob("poisson", "how they come: evenly, at random, in bursts, rising, or in steps")
    policy: Literal["none", "fixed", "greedy", "adaptive"] = knob("greedy", "when a batch is sent")
    max_batch: int = knob(16, "requests in a batch at most", unit="requests", ge=1, le=4096)
    max_delay: float = knob(5.0, "how long a request waits for others under the fixed policy", unit="ms", ge=0, le=60_000)
    in_flight: int = knob(2, "batches that are on their way at once", unit="batches", ge=1, le=64)
    bucket_by_length: bool = knob(False, "only requests of about one length share a batch, so that little is padding")
    queue_limit: int = knob(1000, "requests that may wait; those beyond are rejected", unit="requests", ge=1, le=1_000_000)
    deadline: float | None = knob(None, "requests that have waited so long are dropped; none: never", unit="ms", ge=0, le=3_600_000)
    patience: float | None = knob(None, "clients hang up when they have waited so long for their answer; none: never", unit="ms", ge=0, le=3_600_000)
    slo: float | None = knob(50.0, "latency that is promised: goodput counts what keeps it", unit="ms", ge=0.001, le=3_600_000)
    preprocess_on: Literal["cpu", "gpu"] = knob("cpu", "where bytes become floats")
    tokenize_on: Literal["workers", "host"] = knob("workers", "who makes tokens of sentences: threads beside the server, or the server itself")
    workers: int = knob(1, "threads that decode or make tokens", unit="workers", ge=1, le=64)
    batch_ms: float = knob(2.0, f"what any batch takes; {_FIXED_ONLY}", unit="ms", ge=0, le=60_000)
    item_ms: float = knob(0.5, f"what each request in it adds; {_FIXED_ONLY}", unit="ms", ge=0, le=60_000)
    model: Literal["photos", "embedding", "embedding-random", "fixed"] = knob(
        "photos", "what is served: a classifier of photos, sentence embeddings (trained or random weights), or a model of known cost", live=False,
    )  # fmt: skip
    model_size: Literal["small", "large"] = knob("small", "the residual CNN", live=False)
    image_size: int = knob(96, "side of the square images", unit="pixels", ge=16, le=1024, live=False)
    threads: int | None = knob(
        None, "cores that the compute lane of the cpu device computes with; none: one", ge=1, le=1024, live=False, inert={"cuda": _NO_THREADS, "simulated": _NO_THREADS},
    )  # fmt: skip
    allocation: str | None = knob(None, "an allocation policy: a policy.yaml, or the name of one that labkit ships", live=False)
    replay: str | None = knob(None, "a CSV file of arrival times in seconds, instead of rate and arrivals", live=False)
    seed: int = knob(0, "of the arrivals, the order and the weights", ge=0, le=2**31, live=False)
    data: str | None = knob(None, "a folder of images in class sub-folders, or a file of sentences; none: those that labkit ships", live=False)

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        """A batch that takes no time would be served without end."""
        if self.model == "fixed" and self.batch_ms + self.item_ms <= 0:
            raise ValueError("batch_ms=0 with item_ms=0 is a model that takes no time; allowed: one of them more than 0")
        return self


def prepare(knobs: BatchingKnobs, where: str) -> Any:
    """The workload for one set of cold knobs. Raises DataError where the data cannot be used."""
    if knobs.model == "fixed":
        from labkit.workloads.fixed_cost import FixedCost

        if where.startswith("cuda"):
            raise DataError("model=fixed computes for a given time, which no GPU can: use model=photos, or device=cpu or simulated:…")
        return FixedCost()
    if knobs.model in ("embedding", "embedding-random"):
        from labkit.workloads.sentence_serving import random_serving, trained_serving

        file = datasets_root() / "text" / "sentences.txt" if knobs.data is None else Path(knobs.data).expanduser()
        return (trained_serving if knobs.model == "embedding" else random_serving)(file, knobs, where)
    from labkit.data.photos import Photos
    from labkit.workloads.photo_serving import PhotoServing

    folder = datasets_root() / "photos" if knobs.data is None else Path(knobs.data).expanduser()
    return PhotoServing(Photos.open(folder), knobs, where)


def arrivals(knobs: BatchingKnobs) -> Arrivals:
    """The schedule of requests. Raises DataError where a file of arrival times cannot be used."""
    if knobs.replay is not None:
        return Replay(read_arrivals(Path(knobs.replay)))
    return OpenLoop(knobs.rate, knobs.arrivals, knobs.seed)


def widths(knobs: Any) -> dict[str, int]:
    """Threads that decode are the only lane with more than one unit."""
    return {"workers": knobs.workers}


EXPERIMENT = Experiment(
    name="batching",
    question="What does batching gain in throughput, what does it cost in tail latency, and which policy keeps the promise?",
    knobs=BatchingKnobs,
    kernel=batching,
    prepare=prepare,
    widths=widths,
    arrivals=arrivals,
    presets={
        "one at a time": {"policy": "none"},
        "wait for a full batch": {"policy": "fixed", "max_delay": 20.0},
        "keep the promise": {"policy": "adaptive"},
    },
)
