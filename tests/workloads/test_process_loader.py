"""Loader processes: what they make and when, what they raise, and that none outlives the loader, whoever dies first."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, perf_counter_ns, sleep
from typing import Any

import psutil
import pytest
import torch

from labkit.errors import ContractError, DataError, OpFailed, WorkerDied
from labkit.workloads import loader_process
from labkit.workloads.process_loader import ProcessLoader
from tests.workloads.loader_work import Refusing, work

HANG_GUARD_S = 30
CAN_PIN = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


@pytest.fixture(scope="module")
def loader() -> Iterator[ProcessLoader]:
    """Two processes, shared by the tests that leave them alive."""
    loader = ProcessLoader(work, 2)
    pids = list(loader.pids.values())
    yield loader
    loader.close()
    assert soon(lambda: all(gone(pid) for pid in pids))


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def soon(condition: Callable[[], bool]) -> bool:
    deadline = monotonic() + HANG_GUARD_S
    while not condition() and monotonic() < deadline:
        sleep(0.02)
    return condition()


def in_thread(call: Callable[[], Any]) -> Any:
    """What `call` returns in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(HANG_GUARD_S)


# ---- what is made ------------------------------------------------------------------------------------------------


def test_a_result_comes_back_with_the_times_of_the_work(loader: ProcessLoader) -> None:
    asked = perf_counter_ns()
    made = loader.make(("nap", 0.05))
    assert asked < made.start_ns < made.end_ns < perf_counter_ns()
    assert made.end_ns - made.start_ns >= 50_000_000


def test_tensors_come_back_in_shared_memory_wherever_they_are_in_a_result(loader: ProcessLoader) -> None:
    value = loader.make(("tensor", 5)).value
    assert torch.equal(value["images"], torch.full((3, 4), 5.0)) and value["images"].is_shared()
    assert torch.equal(value["labels"][0], torch.arange(5))


def test_every_thread_has_a_process_of_its_own_which_computes_with_one_thread(loader: ProcessLoader) -> None:
    def asks() -> list[tuple[int, int]]:
        return [loader.make(("who", None)).value[:2] for _ in range(3)]

    one, other = in_thread(asks), in_thread(asks)
    assert len(set(one)) == len(set(other)) == 1
    assert {one[0][0], other[0][0]} == set(loader.pids.values())
    assert one[0][1] == other[0][1] == 1


def test_two_threads_are_served_at_the_same_time_and_many_share_the_processes(loader: ProcessLoader) -> None:
    with ThreadPoolExecutor(2) as pool:
        naps = list(pool.map(lambda _: loader.make(("nap", 0.3)), range(2)))
    assert max(nap.start_ns for nap in naps) < min(nap.end_ns for nap in naps)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: loader.make(("double", number)).value, range(100))) == list(range(0, 200, 2))


def test_the_processes_find_modules_where_the_program_finds_them(loader: ProcessLoader) -> None:
    paths = loader.make(("who", None)).value[2]
    assert [path for path in paths if path] == [path for path in sys.path if path]


@pytest.mark.skipif(not CAN_PIN, reason="one core, or no call to place threads")
def test_every_thread_of_a_process_runs_on_the_cores_of_the_thread_that_asks(loader: ProcessLoader) -> None:
    everywhere = os.sched_getaffinity(0)
    loader.make(("tensor", 1))

    def asks_from(cores: set[int]) -> list[set[int]]:
        os.sched_setaffinity(0, cores)
        return loader.make(("cores", None)).value

    for cores in ({min(everywhere)}, {max(everywhere)}, everywhere):
        assert all(each == cores for each in in_thread(lambda cores=cores: asks_from(cores)))


# ---- what is raised ----------------------------------------------------------------------------------------------


def test_what_the_work_raises_is_raised_with_its_words_and_where(loader: ProcessLoader) -> None:
    with pytest.raises(ValueError) as failure:
        loader.make(("raise", ValueError("no such photo")))
    assert str(failure.value) == "no such photo"
    (note,) = failure.value.__notes__
    assert note.startswith("in loader process ") and "in work\n    raise value" in note


def test_an_error_that_does_not_survive_the_journey_comes_as_its_words(loader: ProcessLoader) -> None:
    with pytest.raises(OpFailed) as failure:
        loader.make(("raise unpicklable", None))
    assert str(failure.value) == "Unpicklable: two words"


def test_exit_in_the_work_is_raised_and_the_process_lives(loader: ProcessLoader) -> None:
    with pytest.raises(SystemExit):
        loader.make(("exit", 3))
    assert loader.make(("double", 4)).value == 8


@pytest.mark.parametrize("request_", [("lock", None), ("double", threading.Lock())], ids=["result", "request"])
def test_what_cannot_be_pickled_is_an_error_and_not_a_hang(loader: ProcessLoader, request_: tuple) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        loader.make(request_)
    assert loader.make(("double", 4)).value == 8


def test_full_shared_memory_is_an_error_that_says_what_is_needed_and_what_to_do(monkeypatch, tmp_path: Path) -> None:
    def no_room(result: Any) -> bytes:
        raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)")

    monkeypatch.setattr(loader_process.ForkingPickler, "dumps", no_room)
    monkeypatch.setattr(loader_process, "SHARED_MEMORY", tmp_path)
    answer = loader_process._answer(lambda size: torch.zeros(size), 7, pickle.dumps(2**18))
    assert (answer.ticket, answer.ok) == (7, False)
    with pytest.raises(DataError, match=r"needs 1 MiB of shared memory for its batch and .* are free in .*--shm-size=2g"):
        raise pickle.loads(answer.payload)


def test_work_that_cannot_be_had_in_another_process_is_refused_at_once() -> None:
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(LookupError, match="not on this side"):
        ProcessLoader(Refusing(), 2)  # type: ignore[arg-type]
    assert soon(lambda: not {child for child in psutil.Process().children(recursive=True) if child not in before})


def test_no_process_at_all_is_refused() -> None:
    with pytest.raises(DataError, match="0 loader processes are not allowed: 1 or more"):
        ProcessLoader(work, 0)


# ---- ends --------------------------------------------------------------------------------------------------------


def test_a_process_that_is_killed_fails_who_waits_and_who_asks_later_and_the_others_end() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    loader = ProcessLoader(work, 2)
    assert torch.rand(1) == expected, "the program's random numbers are not touched"
    assert not loader.failed
    with ThreadPoolExecutor(2) as pool:
        naps = [pool.submit(loader.make, ("nap", 3 * HANG_GUARD_S)) for _ in range(2)]
        assert soon(lambda: len(loader._waiting) == 2)
        os.kill(loader.pids[1], signal.SIGKILL)
        failures = [nap.exception(HANG_GUARD_S) for nap in naps]
    words = f"loader process 1 (pid {loader.pids[1]}) was ended by SIGKILL; "
    assert all(isinstance(failure, WorkerDied) and str(failure).startswith(words) for failure in failures)
    assert loader.failed
    with pytest.raises(WorkerDied, match="was ended by SIGKILL"):
        loader.make(("double", 1))
    assert soon(lambda: all(gone(pid) for pid in loader.pids.values()))
    loader.close()


def test_a_loader_that_is_closed_has_ended_its_process_also_a_busy_one_and_makes_nothing_more() -> None:
    loader = ProcessLoader(work, 1)
    more_than_a_pipe_holds = bytes(1 << 22)
    with ThreadPoolExecutor(2) as pool:
        nap = pool.submit(loader.make, ("nap", 3 * HANG_GUARD_S))
        assert soon(lambda: len(loader._waiting) == 1)
        queued = pool.submit(loader.make, ("double", more_than_a_pipe_holds))
        assert soon(lambda: len(loader._waiting) == 2)
        loader.close()
        assert all(isinstance(each.exception(HANG_GUARD_S), ContractError) for each in (nap, queued))
    assert all(gone(pid) for pid in loader.pids.values())
    with pytest.raises(ContractError, match="the loader is closed"):
        loader.make(("double", 1))
    loader.close()


PROGRAM = """
import sys
sys.path[:] = sys.argv.pop().split(":")
import threading
from labkit.workloads.process_loader import ProcessLoader
from tests.workloads.loader_work import work
loader = ProcessLoader(work, 2)
threading.Thread(target=loader.make, args=(("nap", 600),)).start()
print(*loader.pids.values(), flush=True)
threading.Event().wait()
"""


def test_the_processes_end_when_the_program_is_killed_busy_or_not(tmp_path: Path) -> None:
    """The program has no main module, and finds its modules on a path that it was told."""
    command = [sys.executable, "-P", "-c", PROGRAM, ":".join([str(Path(__file__).parents[2]), *sys.path])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as program:
        try:
            pids = [int(word) for word in program.stdout.readline().split()]
            started = psutil.Process(program.pid).children(recursive=True)
            assert len(pids) == 2 and set(pids) < {child.pid for child in started}
        finally:
            program.kill()
    assert soon(lambda: all(gone(child.pid) for child in started)), "nor is a helper of theirs left"
