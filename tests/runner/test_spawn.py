"""Workers end with the process that started them, from whatever thread, and whatever they are doing."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from labkit.runner.client import Worker

HANG_S = 60.0

WEDGED = """
import ctypes, sys, threading, time
from labkit.runner.client import Worker
from tests.runner.naps import nap_job

def kernel(device, workload, steps):  # holds the interpreter: no other thread of the worker can do anything
    ctypes.PyDLL(None).sleep(600)

worker = Worker()
threading.Thread(target=worker.run, args=(nap_job(kernel=kernel),), daemon=True).start()
while not worker._ready:
    time.sleep(0.01)
time.sleep(1.0)
print(worker.pid, flush=True)
time.sleep(600)
"""


def test_a_worker_outlives_the_thread_that_asked_for_it():
    made: list[Worker] = []
    thread = threading.Thread(target=lambda: made.append(Worker()))
    thread.start()
    thread.join()
    sleep(0.5)
    with made[0] as worker:
        assert worker.alive


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's parent-death signal")
def test_a_worker_that_holds_the_interpreter_ends_with_its_killed_parent(tmp_path: Path):
    root = Path(__file__).parents[2]
    script = WEDGED.replace("worker = Worker()\n", "made = []\nasks = threading.Thread(target=lambda: made.append(Worker()))\nasks.start(); asks.join()\nworker = made[0]\n")
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    give_up_s = monotonic() + HANG_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert monotonic() < give_up_s, f"worker {pid} is still there"
        sleep(0.05)
