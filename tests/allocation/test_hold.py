"""A policy held over fake machines: what is reported as applied is in force, what is not says why, and at the end all of it is undone."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.allocation.gpu import PERCENTAGE, PIPES
from labkit.allocation.hold import Holding, Host, hold
from labkit.allocation.ledger import Line
from labkit.allocation.resctrl import Resctrl
from labkit.errors import DataError
from labkit.trace import Recorder
from tests.allocation.fake_host import FakeGpu, FakeThreads, Mps, fake_resctrl

COMPUTE, MEMORY, CORES, WAYS = (f"reservation.{key}" for key in ("gpu_compute", "gpu_memory", "cores", "cache_ways"))


@pytest.fixture
def mps(tmp_path: Path) -> Iterator[Mps]:
    daemon = Mps(tmp_path / "mps")
    yield daemon
    daemon.close()


def policy(folder: Path, **reservation: Any) -> str:
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump({"reservation": reservation}))
    return str(path)


def lines_of(name: str, host: Host, device: str = "cuda:0") -> dict[str, Line]:
    with hold(name, device, host) as holding:
        return dict(holding.ledger.lines)


def test_without_a_policy_nothing_is_held_and_nothing_is_told():
    with hold(None, "cpu") as holding:
        assert holding.ledger.as_dict() == {} and list(holding.ledger.notes()) == []


def test_every_thread_is_bound_and_goes_back_where_it_was(tmp_path: Path):
    threads = FakeThreads()
    threads.placed[2] = {3}
    with hold(policy(tmp_path, cores=2), "cpu", Host(threads)) as holding:
        assert threads.placed == {1: {0, 1}, 2: {0, 1}, 3: {0, 1}}
        line = holding.ledger.lines[CORES]
        assert line.applied and line.read_back == [0, 1]
        assert list(holding.ledger.notes()) == [
            "allocation policy: applied: reservation.cores=2 (every thread of the worker is bound to cores 0, 1; so are those that start later)"
        ]
        threads.placed[4] = {0, 1}
    assert threads.placed == {1: {0, 1, 2, 3}, 2: {3}, 3: {0, 1, 2, 3}, 4: {0, 1, 2, 3}}


def test_a_thread_that_does_not_follow_is_told(tmp_path: Path):
    line = lines_of(policy(tmp_path, cores=[1]), Host(FakeThreads(deaf={2})), "cpu")[CORES]
    assert not line.applied and "1 threads were not on core 1" in line.words and line.read_back is None


def test_a_system_that_refuses_or_cannot_is_told(tmp_path: Path):
    name = policy(tmp_path, cores=1)
    assert "refused it: Operation not permitted" in lines_of(name, Host(FakeThreads(refuses=True)), "cpu")[CORES].words
    assert "no call that binds" in lines_of(name, Host(FakeThreads(can_bind=False)), "cpu")[CORES].words


@pytest.mark.parametrize(("cores", "complaint"), [(5, "more than there are: this process may use 4"), ([0, 9], "there is no core 9 for this process; it may use cores 0, 1, 2, 3")])
def test_cores_that_do_not_exist_are_refused(cores: Any, complaint: str, tmp_path: Path):
    with pytest.raises(DataError, match=complaint), hold(policy(tmp_path, cores=cores), "cpu", Host(FakeThreads())):
        pass


def test_a_share_of_compute_is_what_the_process_sees_of_the_multiprocessors(tmp_path: Path, mps: Mps):
    environment = {PIPES: str(mps.folder)}
    with hold(policy(tmp_path, gpu_compute=0.5, gpu_memory=0.25), "cuda:0", Host(FakeThreads(), gpu=(gpu := FakeGpu(environment)), environment=environment)) as holding:
        assert environment[PERCENTAGE] == "50" and gpu.limit == 0.25
        assert holding.ledger.lines[COMPUTE].read_back == 66
        assert "sees 66 of 132 multiprocessors" in holding.ledger.lines[COMPUTE].words
        assert holding.ledger.lines[MEMORY].read_back == 0.25
    assert PERCENTAGE not in environment and gpu.limit == 1.0


def test_without_a_daemon_nothing_is_asked_of_mps(tmp_path: Path, mps: Mps):
    name = policy(tmp_path, gpu_compute=0.5)
    empty = tmp_path / "empty"
    empty.mkdir()
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "control").write_text("")
    left_behind = Mps(tmp_path / "left")
    left_behind.close()
    for folder, reason in ((empty, "No such file"), (plain, "is not the pipe"), (left_behind.folder, "nobody reads it")):
        environment = {PIPES: str(folder)}
        line = lines_of(name, Host(FakeThreads(), gpu=FakeGpu(environment), environment=environment))[COMPUTE]
        assert not line.applied and reason in line.words and PERCENTAGE not in environment


@pytest.mark.parametrize(("fault", "reason"), [("obeys", "sees 132 of 132"), ("mute", "nothing shows that it acts"), ("fails", "CUDA did not start")])
def test_a_share_of_compute_that_nothing_confirms_is_not_applied(fault: str, reason: str, tmp_path: Path, mps: Mps):
    environment = {PIPES: str(mps.folder)}
    gpu = FakeGpu(environment, **{fault: fault != "obeys"})
    line = lines_of(policy(tmp_path, gpu_compute=0.5), Host(FakeThreads(), gpu=gpu, environment=environment))[COMPUTE]
    assert not line.applied and reason in line.words
    assert PERCENTAGE not in environment


def test_what_cuda_has_read_already_cannot_change_and_is_told_as_it_is(tmp_path: Path, mps: Mps):
    environment = {PIPES: str(mps.folder)}
    gpu = FakeGpu(environment)
    host = Host(FakeThreads(), gpu=gpu, environment=environment)
    assert lines_of(policy(tmp_path, gpu_compute=0.5), host)[COMPUTE].applied
    assert lines_of(policy(tmp_path, gpu_compute=0.5), host)[COMPUTE].applied  # the worker is warm: what it sees is still half
    late = lines_of(policy(tmp_path, gpu_compute=0.25), host)[COMPUTE]
    assert not late.applied and "sees 66 of 132" in late.words


@pytest.mark.parametrize(("fault", "reason"), [("forgets", "1 was read back"), ("mute", "cannot read it back"), ("fails", "CUDA refused it")])
def test_a_share_of_memory_that_nothing_confirms_is_not_applied(fault: str, reason: str, tmp_path: Path):
    gpu = FakeGpu({}, **{fault: True})
    line = lines_of(policy(tmp_path, gpu_memory=0.5), Host(FakeThreads(), gpu=gpu))[MEMORY]
    assert not line.applied and reason in line.words


def test_on_the_cpu_there_is_no_gpu_to_share(tmp_path: Path):
    lines = lines_of(policy(tmp_path, gpu_memory=0.5, gpu_compute=0.5), Host(FakeThreads()), "cpu")
    assert {key: line.applied for key, line in lines.items()} == {COMPUTE: False, MEMORY: False}
    assert all("there is no GPU to share" in line.words for line in lines.values())


def test_cache_ways_are_a_group_that_is_gone_afterwards(tmp_path: Path):
    root = tmp_path / "resctrl"
    host = Host(FakeThreads(), fake_resctrl(root))
    group = root / f"labkit-{os.getpid()}"
    with hold(policy(tmp_path, cache_ways=4), "cpu", host) as holding:
        assert (group / "schemata").read_text() == "L3:0=f;1=f\n"
        assert (group / "tasks").read_text().split() == ["1", "2", "3"]
        assert holding.ledger.lines[WAYS].read_back == {"0": "f", "1": "f"}
    assert not group.exists()


def test_the_group_goes_and_the_cores_come_back_when_the_run_fails(tmp_path: Path):
    root, threads = tmp_path / "resctrl", FakeThreads()
    with pytest.raises(ZeroDivisionError), hold(policy(tmp_path, cache_ways=4, cores=1), "cpu", Host(threads, fake_resctrl(root))):
        assert list(root.glob("labkit-*")) and threads.placed[1] == {0}
        raise ZeroDivisionError
    assert not list(root.glob("labkit-*")) and threads.placed[1] == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("faults", "ways", "reason"),
    [({"refuses": True}, 4, "Permission denied"), ({"obeys": False}, 4, "read back are"), ({}, 1, "of which 2 to 12"), ({}, 13, "has 12 ways")],
)
def test_cache_ways_that_cannot_be_had_are_told_and_leave_no_group(faults: dict[str, bool], ways: int, reason: str, tmp_path: Path):
    root = tmp_path / "resctrl"
    line = lines_of(policy(tmp_path, cache_ways=ways), Host(FakeThreads(), fake_resctrl(root, **faults)), "cpu")[WAYS]
    assert not line.applied and reason in line.words
    assert not list(root.glob("labkit-*"))


def test_without_resctrl_or_without_an_l3_to_divide_the_reason_says_so(tmp_path: Path):
    name = policy(tmp_path, cache_ways=4)
    assert "not mounted" in lines_of(name, Host(FakeThreads(), Resctrl(tmp_path / "none")), "cpu")[WAYS].words
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "schemata").write_text("MB:0=100\n")
    assert "no cache allocation" in lines_of(name, Host(FakeThreads(), Resctrl(bare)), "cpu")[WAYS].words
    apart = fake_resctrl(tmp_path / "apart")
    (tmp_path / "apart" / "schemata").write_text("L3CODE:0=fff\nL3DATA:0=fff\n")
    assert "no line for L3" in lines_of(name, Host(FakeThreads(), apart), "cpu")[WAYS].words


class Recording:
    """As much of a device as a holding asks of one that measures."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.now_ns = 0

    def now(self) -> int:
        return self.now_ns


def test_a_thread_that_leaves_its_cores_during_the_run_takes_the_applied_back(tmp_path: Path):
    device: Any = Recording()
    for leaves in (False, True):
        threads = FakeThreads()
        with hold(policy(tmp_path, cores=2), "cpu", Host(threads)) as holding:
            threads.placed[3] = {0, 2} if leaves else {1}
            holding.inspect(device, None)
            assert holding.ledger.is_applied(CORES) is not leaves
    assert holding.ledger.lines[CORES].words == "1 threads were free to leave cores 0, 1 at the end of the run"


@pytest.mark.parametrize("deaf", [set(), {2}])
def test_cores_that_move_are_read_back_at_each_move(deaf: set[int], tmp_path: Path):
    path = tmp_path / "policy.yaml"
    rule = {"resource": "cores", "high": 4, "low": 1, "step": 0.25, "minimum": 0.25, "period_ms": 10}
    path.write_text(yaml.safe_dump({"scaling": [rule]}))
    threads, device = FakeThreads(deaf=deaf), Recording()
    with hold(str(path), "cpu", Host(threads)) as holding:
        given: Any = device
        holding.on(given)
        assert threads.placed[1] == {0}
        look = holding.paced(given, lambda: None)
        device.recorder.gauges["waiting"] = 9
        for device.now_ns in (10_000_000, 15_000_000, 20_000_000):
            look()
        holding.inspect(given, None)
        line = holding.ledger.lines["scaling.cores"]
    if deaf:
        assert not line.applied and "1 threads were not on core 0" in line.words
    else:
        assert line.applied and line.read_back == {"share": 0.75, "in_force": [0, 1, 2], "moves": [[10.0, 0.5], [20.0, 0.75]]}
    assert threads.placed == {thread: {0, 1, 2, 3} for thread in (1, 2, 3)}


@pytest.mark.parametrize(("gpu", "reason"), [(None, "no GPU to share"), (FakeGpu({}), "MPS reads a process's share once")])
def test_a_running_process_cannot_move_its_share_of_a_real_gpu(gpu: FakeGpu | None, reason: str, tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump({"scaling": [{"resource": "gpu_compute", "high": 4, "low": 1}]}))
    device: Any = Recording()
    with hold(str(path), "cuda:0" if gpu else "cpu", Host(FakeThreads(), gpu=gpu)) as holding:
        holding.on(device)
        assert not holding.ledger.lines["scaling.gpu_compute"].applied and reason in holding.ledger.lines["scaling.gpu_compute"].words
        assert holding.paced(device, test_a_running_process_cannot_move_its_share_of_a_real_gpu) is test_a_running_process_cannot_move_its_share_of_a_real_gpu
        assert holding.look_ns(None) is None


RESERVATIONS = st.fixed_dictionaries(
    {},
    optional={
        "gpu_memory": st.sampled_from([0.1, 0.5, 1.0]),
        "gpu_compute": st.sampled_from([0.1, 0.25, 0.5, 1.0]),
        "cores": st.one_of(st.integers(1, 6), st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)),
        "cache_ways": st.integers(1, 14),
    },
).filter(bool)
FLAG = st.booleans()


@settings(max_examples=150, deadline=None)
@given(RESERVATIONS, st.sets(st.integers(1, 3)), st.tuples(FLAG, FLAG), st.tuples(FLAG, FLAG, FLAG, FLAG, FLAG), st.tuples(FLAG, FLAG))
def test_what_is_not_in_force_is_never_reported_as_applied(
    wanted: dict[str, Any], deaf: set[int], binding: tuple[bool, ...], gpu_faults: tuple[bool, ...], cache_faults: tuple[bool, ...]
):
    """Random policies on machines with random faults: the fakes know what is really in force."""
    refuses, can_bind = binding
    daemon_runs, obeys, mute, fails, forgets = gpu_faults
    with TemporaryDirectory() as name:
        folder = Path(name)
        daemon = Mps(folder / "mps")
        if not daemon_runs:
            daemon.close()
        threads = FakeThreads(deaf=deaf, refuses=refuses, can_bind=can_bind)
        before = {thread: set(cores) for thread, cores in threads.placed.items()}
        environment = {PIPES: str(folder / "mps")}
        gpu = FakeGpu(environment, obeys, mute, fails, forgets)
        host = Host(threads, fake_resctrl(folder / "resctrl", obeys=cache_faults[0], refuses=cache_faults[1]), gpu, environment)
        try:
            with hold(policy(folder, **wanted), "cuda:0", host) as holding:
                assert set(holding.ledger.lines) == {f"reservation.{key}" for key in wanted}
                _agree(holding, wanted, threads, gpu, folder / "resctrl")
        except DataError as error:
            assert "reservation.cores" in str(error)
        finally:
            if daemon_runs:
                daemon.close()
        assert threads.placed == before and environment == {PIPES: str(folder / "mps")} and gpu.limit == 1.0
        assert not list((folder / "resctrl").glob("labkit-*"))


def _agree(holding: Holding, wanted: dict[str, Any], threads: FakeThreads, gpu: FakeGpu, resctrl: Path) -> None:
    """Each line against what the fakes know."""
    ledger = holding.ledger
    for line in ledger.lines.values():
        assert line.applied == (line.read_back is not None) and line.words
    if ledger.is_applied(CORES):
        count = wanted["cores"] if isinstance(wanted["cores"], int) else len(wanted["cores"])
        assert len({frozenset(cores) for cores in threads.placed.values()}) == 1 and len(threads.placed[1]) == count
    if ledger.is_applied(COMPUTE):
        assert gpu.multiprocessors() == pytest.approx(132 * wanted["gpu_compute"], abs=1)
    if ledger.is_applied(MEMORY):
        assert gpu.limit == wanted["gpu_memory"]
    if ledger.is_applied(WAYS):
        group = next(resctrl.glob("labkit-*"))
        assert f"{(1 << wanted['cache_ways']) - 1:x}" in (group / "schemata").read_text()
        assert len((group / "tasks").read_text().split()) == 3
