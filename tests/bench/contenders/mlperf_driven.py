"""Our server on the cpu device, driven by MLPerf LoadGen or by our own load generator, in one process of the peers' environment.

"go N" is one turn: 0 LoadGen's Server scenario, 1 our generator on the schedule that LoadGen had, 2 LoadGen's Offline scenario, 3 our generator with as many requests,
all due at 0. LoadGen calls from a thread of its own, which brings the request and wakes the host; the host tells it of answers.
LoadGen's times are read from its trace: when each sample was scheduled, how late it was issued, and how long it took from then until it was told.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import mlperf_loadgen
import numpy as np

from labkit.device.cpu import CpuDevice
from labkit.experiments.batching import BatchingKnobs
from labkit.kernels.batching import batching
from labkit.schedule import Budget, Handle, Request, Step, Steps
from labkit.schedule.arrivals import Arrivals, Replay
from labkit.workloads.fixed_cost import FixedCost
from tests.bench.brought import Brought
from tests.bench.contender import serve
from tests.bench.mlperf_log import result_of, samples_of

KNOBS = BatchingKnobs(model="fixed", batch_ms=5.0, item_ms=1.0, policy="fixed", max_delay=1.0, max_batch=8, in_flight=1, slo=None, queue_limit=1_000_000)
RATE, CAPACITY = 369.0, 8 / 13 * 1000
LATENCY_TARGET_MS, SEED = 100.0, 7


@dataclass(frozen=True)
class Turn:
    """Quantiles in ms. `own`: the server's own record, from when a request was due in its eyes."""

    requests: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    late_p50_ms: float
    late_p99_ms: float
    own_p50_ms: float
    own_p90_ms: float
    per_s: float
    verdict: str = ""

    @classmethod
    def of(cls, latency_ns: np.ndarray, late_ns: np.ndarray, own_ns: np.ndarray, per_s: float, verdict: str = "") -> "Turn":
        """From a value for each request."""
        quantiles = [*np.quantile(latency_ns, (0.5, 0.9, 0.99)), *np.quantile(late_ns, (0.5, 0.99)), *np.quantile(own_ns, (0.5, 0.9))]
        return cls(len(latency_ns), *(float(value) / 1e6 for value in quantiles), per_s, verdict)


class Told(FixedCost):
    """The model of a known cost; somebody is told which requests have been answered."""

    def __init__(self, tell: Callable[[Sequence[Request]], None]):
        super().__init__()
        self._tell = tell

    def answered(self, step: Step, requests: Sequence[Request], answers: Handle) -> None:
        """The host has the answers."""
        self._tell(requests)


def served(device: CpuDevice, source: Arrivals, tell: Callable[[Sequence[Request]], None] = lambda requests: None) -> dict[str, np.ndarray]:
    """Serve until the source ends; the columns of the requests."""
    steps = Steps(KNOBS, Budget(steps=10**9, warmup=0), device.now, arrivals=source)
    batching(device, Told(tell), steps)
    trace = device.recorder.finish(device.now())
    device.close()
    return trace.requests


class Driven:
    """The turns, and what they have to know of one another."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._due_ns: list[int] = []
        self._offline = 0

    def go(self, kind: int) -> dict:
        """One turn."""
        gc.collect()
        return asdict((self._server, self._our_server, self._offline_scenario, self._our_offline)[kind]())

    def _server(self) -> Turn:
        with TemporaryDirectory() as folder:
            columns = _under_loadgen(_settings(mlperf_loadgen.TestScenario.Server, self._seconds), Path(folder))
            scheduled_ns, late_ns, latency_ns = samples_of((Path(folder) / "mlperf_log_trace.json").read_text())
            verdict = result_of((Path(folder) / "mlperf_log_summary.txt").read_text())["Result is"]
        self._due_ns = (np.sort(scheduled_ns) - scheduled_ns.min()).tolist()
        return Turn.of(latency_ns, late_ns, columns["done_ns"] - columns["due_ns"], _per_s(columns), verdict)

    def _our_server(self) -> Turn:
        columns = served(CpuDevice(), Replay(self._due_ns))
        latency_ns = columns["done_ns"] - columns["due_ns"]
        return Turn.of(latency_ns, columns["admitted_ns"] - columns["due_ns"], latency_ns, _per_s(columns))

    def _offline_scenario(self) -> Turn:
        with TemporaryDirectory() as folder:
            columns = _under_loadgen(_settings(mlperf_loadgen.TestScenario.Offline, self._seconds / 2), Path(folder))
            _, late_ns, latency_ns = samples_of((Path(folder) / "mlperf_log_trace.json").read_text())
            result = result_of((Path(folder) / "mlperf_log_summary.txt").read_text())
        self._offline = len(latency_ns)
        return Turn.of(latency_ns, late_ns, columns["done_ns"] - columns["due_ns"], float(result["Samples per second"]), result["Result is"])

    def _our_offline(self) -> Turn:
        columns = served(CpuDevice(), Replay([0] * self._offline))
        latency_ns = columns["done_ns"] - columns["due_ns"]
        return Turn.of(latency_ns, columns["admitted_ns"] - columns["due_ns"], latency_ns, len(latency_ns) / (columns["done_ns"].max() / 1e9))


def _per_s(columns: dict[str, np.ndarray]) -> float:
    return len(columns["done_ns"]) / ((columns["done_ns"].max() - columns["due_ns"].min()) / 1e9)


def _settings(scenario: "mlperf_loadgen.TestScenario", seconds: float) -> "mlperf_loadgen.TestSettings":
    settings = mlperf_loadgen.TestSettings()
    settings.scenario, settings.mode = scenario, mlperf_loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = round(seconds * 1000), 1
    settings.server_target_qps, settings.server_target_latency_ns = RATE, round(LATENCY_TARGET_MS * 1e6)
    settings.offline_expected_qps = CAPACITY
    settings.schedule_rng_seed = SEED
    return settings


def _under_loadgen(settings: "mlperf_loadgen.TestSettings", folder: Path) -> dict[str, np.ndarray]:
    """Serve what LoadGen asks for until its test is over; the server's own columns. Its logs are in the folder."""
    device = CpuDevice()
    source = Brought(device)
    names: list[int] = []

    def issue(samples: list) -> None:
        source.bring(len(samples), lambda first: names.extend(sample.id for sample in samples))

    def tell(requests: Sequence[Request]) -> None:
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(names[request.id], 0, 0) for request in requests])

    def test() -> None:
        output, logs = mlperf_loadgen.LogOutputSettings(), mlperf_loadgen.LogSettings()
        output.outdir, logs.enable_trace = str(folder), True
        logs.log_output = output
        library = mlperf_loadgen.ConstructQSL(1024, 1024, lambda samples: None, lambda samples: None)
        tested = mlperf_loadgen.ConstructSUT(issue, lambda: None)
        try:
            mlperf_loadgen.StartTestWithLogSettings(tested, library, settings, logs, "")
        finally:
            mlperf_loadgen.DestroySUT(tested)
            mlperf_loadgen.DestroyQSL(library)
            source.close()

    thread = Thread(target=test, name="loadgen", daemon=True)
    thread.start()
    columns = served(device, source, tell)
    thread.join()
    return columns


if __name__ == "__main__":
    serve(Driven(float(sys.argv[1])).go)
