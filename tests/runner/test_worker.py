"""The worker process: warm, steerable, and harmless when it dies."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest

from labkit.runner.client import Worker
from labkit.runner.job import Job, Outcome, Recipe
from labkit.runner.workers import Workers
from labkit.schedule import Budget
from tests.runner import naps as naps_module
from tests.runner.naps import NapKnobs, naps

HANG_GUARD_S = 60


class Naps(naps_module.Naps):
    """Naps that also say which process they were taken in."""

    def notes(self) -> list[str]:
        return ["a note"]

    def results(self) -> dict[str, Any]:
        return {"done": self.done, "pid": os.getpid()}


def job(steps: int = 10, kernel: Callable = naps, device: str = "cpu", **knobs: Any) -> Job:
    recipe = Recipe("naps", kernel, lambda knobs, kind: Naps(), lambda knobs: {})
    return Job(recipe, NapKnobs.parse(knobs), device, Budget(steps=steps, warmup=0))


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + HANG_GUARD_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.fixture(scope="module")
def warm() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


def test_a_job_runs_in_another_process_and_brings_back_its_trace(warm: Worker) -> None:
    outcome = warm.run(job(steps=10))
    assert (outcome.status, outcome.results["done"]) == ("ok", 10)
    assert outcome.results["pid"] == warm.pid != os.getpid()
    assert outcome.trace is not None
    assert (outcome.trace["kind"] == 0).sum() == 10
    assert outcome.notes == ("a note",)


def test_an_op_that_raises_fails_the_run_with_its_name_and_words(warm: Worker) -> None:
    outcome = warm.run(job(fails_at=3))
    assert outcome.status == "failed"
    assert outcome.failure == "op 'nap': ValueError: no nap at step 3"
    assert outcome.trace is not None, "a failure leaves what happened until then"
    assert warm.run(job()).status == "ok", "the next run works"


def test_a_kernel_that_raises_fails_the_run(warm: Worker) -> None:
    def broken(device: Any, workload: Any, steps: Any) -> None:
        raise RuntimeError("not a kernel")

    assert warm.run(job(kernel=broken)).failure == "RuntimeError: not a kernel"


def test_a_function_defined_in_a_test_travels_to_the_worker(warm: Worker) -> None:
    greeting = "from a closure"

    def says(device: Any, workload: Any, steps: Any) -> None:
        raise LookupError(greeting)

    assert warm.run(job(kernel=says)).failure == "LookupError: from a closure"


def test_preparing_that_raises_is_a_failed_outcome(warm: Worker) -> None:
    def refuses(knobs: Any, kind: str) -> Any:
        raise OSError("no such model")

    recipe = Recipe("refuses", naps, refuses, lambda knobs: {})
    outcome = warm.run(Job(recipe, NapKnobs(), "cpu", Budget(steps=1, warmup=0)))
    assert (outcome.status, outcome.failure) == ("failed", "OSError: no such model")


def test_results_that_cannot_travel_are_a_failure_that_says_so(warm: Worker) -> None:
    class Locked(Naps):
        def results(self) -> dict[str, Any]:
            return {"lock": threading.Lock()}

    recipe = Recipe("locked", naps, lambda knobs, kind: Locked(), lambda knobs: {})
    outcome = warm.run(Job(recipe, NapKnobs(), "cpu", Budget(steps=1, warmup=0)))
    assert outcome.status == "failed"
    assert "must be plain data" in outcome.failure
    assert warm.alive


class Bomb:
    """Pickles well, and raises when it is unpickled."""

    def __reduce__(self) -> tuple:
        return eval, ("1 / 0",)


def test_an_outcome_that_cannot_be_read_does_not_hang_the_caller(warm: Worker) -> None:
    class Bombed(Naps):
        def notes(self) -> list[Any]:
            return [Bomb()]

    recipe = Recipe("bombed", naps, lambda knobs, kind: Bombed(), lambda knobs: {})
    outcome = warm.run(Job(recipe, NapKnobs(), "cpu", Budget(steps=1, warmup=0)))
    assert outcome.status == "failed"
    assert "must be plain data" in outcome.failure
    assert warm.run(job(steps=1)).status == "ok"


@pytest.mark.parametrize("stage", ["prepare", "begin"])
def test_exit_in_the_set_up_is_a_failed_outcome_and_the_worker_lives(warm: Worker, stage: str) -> None:
    class Leaving(Naps):
        def begin(self) -> None:
            raise SystemExit(3)

    def prepare(knobs: Any, where: str) -> Naps:
        if stage == "prepare":
            raise SystemExit(3)
        return Leaving()

    outcome = warm.run(Job(Recipe(stage, naps, prepare, lambda knobs: {}), NapKnobs(), "cpu", Budget(steps=1, warmup=0)))
    assert (outcome.status, outcome.failure) == ("failed", "SystemExit: 3")
    assert warm.alive


def test_the_worker_imports_what_the_caller_can_and_nothing_from_the_working_folder(tmp_path: Any) -> None:
    beside, elsewhere = tmp_path / "beside", tmp_path / "elsewhere"
    beside.mkdir()
    elsewhere.mkdir()
    (beside / "my_kernel.py").write_text("def kernel(device, workload, steps):\n    raise LookupError('mine')\n")
    (elsewhere / "random.py").write_text("raise SystemExit('shadowed')\n")
    (beside / "script.py").write_text(
        "import my_kernel\n"
        "from labkit.knobs import Knobs\nfrom labkit.runner.client import Worker\n"
        "from labkit.runner.job import Job, Recipe\nfrom labkit.schedule import Budget\n"
        "from labkit.workloads.workload import Workload\n"
        "recipe = Recipe('mine', my_kernel.kernel, lambda knobs, where: Workload(), lambda knobs: {})\n"
        "with Worker() as worker:\n    print(worker.run(Job(recipe, Knobs(), 'cpu', Budget(steps=1))).failure)\n"
    )
    ended = subprocess.run([sys.executable, str(beside / "script.py")], cwd=elsewhere, capture_output=True, text=True)
    assert ended.stdout == "LookupError: mine\n", ended.stderr


def test_a_kernel_that_calls_exit_fails_the_run_and_not_the_worker(warm: Worker) -> None:
    def leaves(device: Any, workload: Any, steps: Any) -> None:
        raise SystemExit(5)

    assert warm.run(job(kernel=leaves)).failure == "SystemExit: 5"
    assert warm.run(job(steps=1)).status == "ok"


def test_a_caller_with_closed_standard_streams_can_run() -> None:
    code = "from labkit.runner.client import Worker\nwith Worker() as worker: worker._wait_until_ready()"
    command = f'exec "{sys.executable}" -c "{code}" <&- >&-'
    assert subprocess.run(["bash", "-c", command], stderr=subprocess.DEVNULL).returncode == 0


def test_frames_tell_how_far_the_run_is(warm: Worker) -> None:
    frames = []
    warm.run(job(steps=60, nap_ms=10), frames.append)
    shares = [frame.share for frame in frames]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 1
    assert 0 < shares[-1] <= 1


def test_stop_ends_the_run_as_cancelled_with_what_it_has(warm: Worker) -> None:
    outcome = warm.run(job(steps=10_000), lambda frame: warm.stop())
    assert outcome.status == "cancelled"
    assert 0 < outcome.results["done"] < 10_000


def test_turning_a_live_knob_acts_on_the_steps_to_come_and_leaves_a_mark(warm: Worker) -> None:
    threading.Timer(0.2, lambda: warm.turn(NapKnobs(nap_ms=1))).start()
    outcome = warm.run(job(steps=100, nap_ms=10))
    assert outcome.trace is not None
    [mark] = outcome.trace.marks
    assert (mark.knob, mark.old, mark.new) == ("nap_ms", 10, 1)


def test_a_killed_worker_is_a_failed_outcome_with_the_reason_and_the_next_run_works() -> None:
    with Workers() as workers:
        first = workers.run(job(steps=1))
        pid = first.results["pid"]
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
        killed = workers.run(job(steps=10_000))
        assert killed.status == "failed"
        assert "SIGKILL" in killed.failure
        assert "of memory are free now" in killed.failure
        assert workers.run(job(steps=3)).status == "ok"


def test_a_worker_that_exits_by_itself_is_a_failed_outcome() -> None:
    def leaves(device: Any, workload: Any, steps: Any) -> None:
        os._exit(7)

    with Worker() as worker:
        assert worker.run(job(kernel=leaves)).failure == "the worker process ended with exit code 7"


@pytest.mark.parametrize(
    ("widths", "says"),
    [({"compute": -1}, "width -1 of lane 'compute'"), ({"workers": 0}, "width 0"), ({"zzz": 3}, "no lane role 'zzz'"), ({"workers": "a"}, "width 'a'")],
)
def test_a_width_that_no_lane_can_have_is_a_failed_outcome(warm: Worker, widths: dict, says: str) -> None:
    recipe = Recipe(says, naps, lambda knobs, where: Naps(), lambda knobs: widths)
    for device in ("cpu", "simulated:t4"):
        outcome = warm.run(Job(recipe, NapKnobs(), device, Budget(steps=1, warmup=0)))
        assert outcome.status == "failed"
        assert says in outcome.failure


def test_two_set_ups_keep_a_worker_each_and_a_third_takes_the_oldest_ones_place() -> None:
    with Workers() as workers:
        pids = [workers.run(job(steps=1, seed=seed)).results["pid"] for seed in (0, 1, 0, 1, 2)]
        assert pids[:2] == pids[2:4]
        assert len(set(pids)) == 3
        assert soon(lambda: gone(pids[0]))
    assert all(soon(lambda pid=pid: gone(pid)) for pid in pids)


def test_simulated_set_ups_share_a_worker_but_a_user_s_own_code_does_not() -> None:
    with Workers() as workers:
        pids = [workers.run(job(steps=1, seed=seed, device="simulated:l4")).results["pid"] for seed in (0, 1, 2, 0)]
        assert len(set(pids)) == 1
        users = replace(job(steps=1, device="simulated:l4"), recipe=replace(job(steps=1).recipe, content="a user's"))
        assert workers.run(users).results["pid"] != pids[0]


def test_ctrl_c_at_random_moments_gives_a_cancelled_outcome_and_the_worker_lives() -> None:
    rng = random.Random(4)
    with Worker() as worker:
        worker.run(job(steps=1))
        for _ in range(10):
            outcome = interrupted(worker, rng.uniform(0.0, 0.25))
            assert outcome.status == "cancelled"
        assert worker.run(job(steps=3)).status == "ok"


def interrupted(worker: Worker, after_s: float) -> Outcome:
    """Run a long job and press Ctrl-C after a while; presses that come before `run` is entered are repeated."""
    timer = threading.Timer(after_s + 0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        return worker.run(job(steps=100_000, nap_ms=2))
    finally:
        timer.join()


def test_the_worker_ends_when_its_parent_is_killed(tmp_path: Any) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\nfrom labkit.runner.client import Worker\n"
        "worker = Worker(); worker._wait_until_ready(); print(worker.pid, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert soon(lambda: gone(child))
