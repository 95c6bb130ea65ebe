"""The model of a known cost that the servers over HTTP serve, by the same computation as `labkit/workloads/fixed_cost.py`.

A request says what its batch takes: {"batch_ms": 5, "item_ms": 1}; an echo asks for nothing. The answer says how many shared the batch.
"""

import argparse
import os
import signal
from threading import Thread

from labkit.workloads.fixed_cost import compute_for

APART = "BENCH_MODEL_APART"
"""Set where the model shall have the first core for itself, and everything else of its server the others."""


def options() -> argparse.Namespace:
    """What the benchmark asks of a server: where it listens, and how it batches. What else is on the command line is the server's own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-batch", type=int, required=True)
    parser.add_argument("--delay-ms", type=int, required=True)
    return parser.parse_known_args()[0]


def end_with_the_benchmark() -> None:
    """When the input ends, the benchmark is gone, however it went: the group of this process ends with it."""

    def watch() -> None:
        os.read(0, 1)  # not sys.stdin: its lock would be held in children that are forked
        os.killpg(0, signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


def answer(requests: list[dict]) -> list[dict]:
    """Compute for as long as the batch takes; all of its requests ask for the same."""
    ms = requests[0]["batch_ms"] + requests[0]["item_ms"] * len(requests)
    if ms:
        compute_for(round(ms * 1e6))
    return [{"shared": len(requests)}] * len(requests)


def stand_with_the_server() -> None:
    """The calling process, and what it starts, leave the first core to the model."""
    _place(model=False)


def stand_with_the_model() -> None:
    """The calling process has the first core."""
    _place(model=True)


def _place(model: bool) -> None:
    if APART in os.environ:
        first, *others = sorted(map(int, os.environ[APART].split()))
        os.sched_setaffinity(0, [first] if model else others)
