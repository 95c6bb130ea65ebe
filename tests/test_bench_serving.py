"""The serving benchmarks' own tools: the open-loop client over HTTP, servers that leave nothing behind, requests that another thread brings. No peer is needed."""

import os
import select
import signal
import socket
import subprocess
import sys
from threading import Thread, Timer
from time import monotonic, sleep

import numpy as np
import psutil
import pytest

from labkit.device.cpu import CpuDevice
from labkit.experiments.batching import BatchingKnobs
from labkit.kernels.batching import batching
from labkit.schedule import Answer, Budget, Request, Steps
from labkit.workloads.fixed_cost import FixedCost
from tests.bench import batcher_tail, loadgen_mlperf
from tests.bench.batcher_tail import MODEL, AtLoad, Seen, arrivals
from tests.bench.brought import FAR_NS, Brought
from tests.bench.contender import ROOT
from tests.bench.http_server import HttpServer
from tests.bench.measure import BenchError
from tests.bench.mlperf_log import result_of, samples_of
from tests.bench.open_loop_client import CONNECTIONS, ECHO, HOST, Driven, complete_body, drive, request_text

BARE = ("tests.bench.contenders.bare_server", ["--max-batch", "1", "--delay-ms", "0"])
HANG_S = 30.0
MS = 1_000_000


# ---- over HTTP ------------------------------------------------------------------------------------------------


def test_a_client_sends_every_request_when_it_is_due_and_has_an_answer_to_each():
    due_ns = [place * MS for place in range(200)]
    with HttpServer(sys.executable, *BARE) as server:
        driven = drive(server.port, due_ns, ECHO)
    assert len(driven.latency_ms) == 200 and (driven.late_ms >= 0).all() and (driven.latency_ms > driven.late_ms).all()
    assert driven.mean_batch == 1.0


def test_more_requests_at_once_than_connections_wait_in_the_client_and_that_is_part_of_their_latency():
    count = CONNECTIONS + 100
    with HttpServer(sys.executable, *BARE) as server:
        driven = drive(server.port, [0] * count, ECHO)
    assert (driven.latency_ms > driven.late_ms).all() and driven.late_ms[CONNECTIONS:].min() > driven.late_ms[0]


def test_a_server_that_hangs_up_ends_the_drive_with_the_reason():
    with socket.create_server((HOST, 0), backlog=CONNECTIONS) as listening:
        port = listening.getsockname()[1]

        def hang_up_on_the_first_request() -> None:
            connections = [listening.accept()[0] for _ in range(CONNECTIONS)]
            asked, _, _ = select.select(connections, [], [])
            asked[0].recv(4096)
            for connection in connections:
                connection.close()

        thread = Thread(target=hang_up_on_the_first_request)
        thread.start()
        with pytest.raises(BenchError, match="closed a connection"):
            drive(port, [0, 60_000 * MS], ECHO)
        thread.join()
    with pytest.raises(BenchError, match="cannot be reached"):
        drive(port, [0], ECHO)


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(BenchError, match="no_such_server"), HttpServer(sys.executable, "tests.bench.contenders.no_such_server", []):
        pass


def test_a_server_is_gone_when_it_is_left():
    with HttpServer(sys.executable, *BARE) as server:
        process = psutil.Process(server._process.pid)
        assert process.is_running()
    assert not process.is_running()


def test_a_server_ends_itself_when_its_benchmark_was_killed(tmp_path):
    program = (
        "import os, signal, sys\nfrom tests.bench.http_server import HttpServer\n"
        f"with HttpServer(sys.executable, *{BARE!r}) as server:\n    print(server._process.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=HANG_S)
    pid, until = int(done.stdout), monotonic() + HANG_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE and monotonic() < until:
        sleep(0.02)
    assert done.returncode == -signal.SIGKILL and monotonic() < until


@pytest.mark.parametrize(
    ("received", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{", None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
def test_an_answer_is_complete_when_its_length_is_there(received, body):
    assert complete_body(received) == body


def test_an_answer_without_a_length_is_refused():
    with pytest.raises(BenchError, match="without a Content-Length"):
        complete_body(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_a_request_carries_its_model_as_json():
    assert request_text({"batch_ms": 5.0}).endswith(b'Content-Length: 17\r\n\r\n{"batch_ms": 5.0}')


def test_a_batch_counts_once_in_the_mean():
    assert Driven(np.zeros(5), np.zeros(5), np.array([4, 4, 4, 4, 1])).mean_batch == 2.5


# ---- what the tail is held against ----------------------------------------------------------------------------


@pytest.mark.parametrize(("predicted_ms", "allowed_ms"), [(10.0, 15.0), (20.0, 25.0), (40.0, 50.0)])
def test_the_tail_may_be_a_quarter_or_five_milliseconds_over_the_prediction(predicted_ms, allowed_ms):
    assert batcher_tail.allowed_ms(predicted_ms) == allowed_ms


def test_loads_are_shares_of_what_full_batches_serve():
    assert MODEL.rate(1.0) == pytest.approx(8 / 13 * 1000)
    assert len(arrivals(100.0, 50.0, seed=1)) == pytest.approx(5000, rel=0.05) and arrivals(100.0, 50.0, 1) == arrivals(100.0, 50.0, 1)


def test_ratios_are_of_rounds_and_what_is_left_is_without_the_echo():
    seen = {name: [Seen(1.0, p99_ms, 0.1, 2.0) for p99_ms in p99s] for name, p99s in {"ours": [10.0, 30.0], "predicted": [8.0, 40.0], "mosec": [20.0, 60.0]}.items()}
    at = AtLoad(MODEL, 0.3, seen)
    assert at.ratio("mosec").value == 0.5 and at.allowed_share == pytest.approx((10 / 13 + 30 / 50) / 2)
    assert at.floor("mosec") == pytest.approx((8 / 20 + 40 / 60) / 2)
    assert at.left("mosec", 0.0) == 0.5 and at.left("mosec", 10.0) == pytest.approx((10 / 10 + 30 / 50) / 2)
    assert at.left("mosec", 60.0) == float("inf"), "an echo that takes as long as the answer leaves nothing"


# ---- under another load generator -----------------------------------------------------------------------------


class Clock:
    """A host whose time is set, and which counts how often it was woken."""

    def __init__(self) -> None:
        self.time_ns, self.calls = 0, 0

    def now(self) -> int:
        return self.time_ns

    def wake(self) -> None:
        self.calls += 1


def test_requests_that_are_brought_are_due_then_and_taken_once():
    clock = Clock()
    source = Brought(clock)
    assert source.next_ns == FAR_NS and source.take(0) == []
    clock.time_ns = 70
    source.bring(2)
    assert source.next_ns == 70 and source.take(69) == []
    assert source.take(70) == [Request(0, 70), Request(1, 70)] and source.take(70) == []
    source.bring()
    source.close()
    assert source.next_ns == 70 and source.take(70) == [Request(2, 70)] and source.next_ns is None
    assert clock.calls == 3


def test_a_server_that_waits_serves_whatever_another_thread_brings_and_ends_with_it():
    device = CpuDevice()
    source = Brought(device)
    firsts: list[int] = []

    def bring() -> None:
        for count in (1, 3, 0, 200):
            sleep(0.01)
            source.bring(count, firsts.append)
        source.close()

    thread, guard = Thread(target=bring), Timer(HANG_S, device.wake)
    thread.start()
    guard.start()
    knobs = BatchingKnobs(model="fixed", batch_ms=0.1, item_ms=0.0, in_flight=1, slo=None)
    batching(device, FixedCost(), Steps(knobs, Budget(steps=10**9, warmup=0), device.now, arrivals=source))
    assert guard.is_alive(), "it was the source that woke the server"
    guard.cancel()
    thread.join()
    columns = device.recorder.finish(device.now()).requests
    device.close()
    assert firsts == [0, 1, 4, 4] and sorted(columns["request"].tolist()) == list(range(204))
    assert set(columns["answer"].tolist()) == {Answer.SERVED} and (columns["admitted_ns"] >= columns["due_ns"]).all()


SAMPLES = """{"traceEvents":[
{"name":"Scheduling","ph":"X","pid":1,"tid":1,"ts":0.060,"dur":0.060,"args":{}},
{"name":"Sample","cat":"default","ph":"b","pid":1,"id":1,"ts":1226.283,"args":{"sample_seq":1,"query_seq":1,"sample_idx":15,"issue_start_ns":103251,"complete_ns":116741}},
{"name":"Sample","cat":"default","ph":"e", "pid":1,"id":1,"ts":1343.024},
{"name":"Sample","cat":"default","ph":"b","pid":1,"id":0,"ts":366.567,"args":{"sample_seq":0,"query_seq":0,"sample_idx":50,"issue_start_ns":190,"complete_ns":20200}},
"""


def test_loadgens_trace_says_when_each_sample_was_scheduled_issued_and_done():
    scheduled, late, latency = samples_of(SAMPLES)
    assert scheduled.tolist() == [366_567, 1_226_283] and late.tolist() == [190, 103_251] and latency.tolist() == [20_200, 116_741]
    with pytest.raises(BenchError, match="no sample"):
        samples_of('{"traceEvents":[\n')


def test_loadgens_summary_is_read_by_name():
    assert result_of("====\nSamples per second: 609.234\nResult is : VALID\n  Min duration satisfied : Yes\nAdditional Stats\n") == {
        "Samples per second": "609.234",
        "Result is": "VALID",
        "Min duration satisfied": "Yes",
    }


@pytest.mark.parametrize(("loadgen_ms", "allowed_ms"), [(1.0, 0.2), (4.0, 0.2), (20.0, 1.0)])
def test_two_generators_agree_within_a_share_or_an_absolute_time(loadgen_ms, allowed_ms):
    assert loadgen_mlperf.allowed_ms(loadgen_ms) == pytest.approx(allowed_ms)


def test_generators_are_compared_round_by_round():
    turns = {"LoadGen": [{"p50_ms": 10.0}, {"p50_ms": 20.0}, {"p50_ms": 30.0}], "ours": [{"p50_ms": 10.5}, {"p50_ms": 19.0}, {"p50_ms": 30.1}]}
    assert loadgen_mlperf.apart_ms(turns, "p50_ms") == pytest.approx(0.1)
