"""The doctor: each check finds what is wrong, says what to do, changes nothing and never raises."""

import json
import subprocess
import sys
from collections import namedtuple
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import pytest

from labkit.device.machine import Figure, Machine, this_machine_path, write_machine
from labkit.runner import doctor
from labkit.runner.doctor import Check, examine
from labkit.runner.shadowing import shadowing_files

NAMES = [
    "Python", "PyTorch", "CUDA", "NVML", "cores", "threads", "memory lock", "shared memory", "disk", "runs folder",
    "module names", "data sets", "calibration",
]  # fmt: skip
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def an_empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with a home for calibrations that holds none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    return tmp_path


def found(name: str) -> Check:
    return next(check for check in examine() if check.name == name)


def test_every_check_is_made_once_in_order_and_is_plain_data():
    checks = examine()
    assert [check.name for check in checks] == NAMES
    assert {check.state for check in checks} <= {"ok", "note", "problem"}
    assert all(check.words for check in checks)
    assert json.loads(json.dumps([asdict(check) for check in checks]))


def test_every_problem_and_note_of_this_machine_comes_with_advice():
    assert [check for check in examine() if check.state != "ok" and not check.advice] == []


def test_looking_leaves_nothing_behind(an_empty_place: Path):
    examine()
    assert list(an_empty_place.iterdir()) == []


def test_a_check_that_raises_becomes_a_note(monkeypatch: pytest.MonkeyPatch):
    def broken() -> int:
        raise OSError("the kernel says no")

    monkeypatch.setattr(doctor, "affinity_cores", broken)
    assert found("cores") == Check("cores", "note", "could not be examined: OSError: the kernel says no")
    assert len(examine()) == len(NAMES)


def test_a_torch_that_is_not_there_is_a_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    check = found("PyTorch")
    assert (check.state, check.advice) == ("problem", "install torch 2.8 or newer")


def test_no_gpu_is_a_note_that_names_what_can_be_used_instead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "cuda_count", lambda: (0, "this torch is built without CUDA"))
    monkeypatch.setattr(doctor, "_driver_version", lambda: "")
    check = found("CUDA")
    assert check.state == "note"
    assert check.words == "no GPU here: this torch is built without CUDA"
    assert check.advice == "use cpu, or simulated:h200 for a prediction"


def test_a_driver_that_torch_cannot_use_is_a_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "cuda_count", lambda: (0, "this torch is built without CUDA"))
    monkeypatch.setattr(doctor, "_driver_version", lambda: "600.01")
    check = found("CUDA")
    assert check.state == "problem"
    assert "there is a driver (600.01)" in check.words
    assert "built for CUDA" in check.advice


def test_a_missing_nvml_library_is_a_note(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert found("NVML").state == "note"
    assert "nvidia-ml-py" in found("NVML").advice


def test_one_core_is_a_note_because_nothing_overlaps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "available_cores", lambda: 1)
    assert found("cores").state == "note"
    assert "cannot overlap" in found("cores").advice


def test_more_threads_than_cores_is_a_problem_that_says_how_many_to_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "available_cores", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    check = found("threads")
    assert check.state == "problem"
    assert "OMP_NUM_THREADS=64" in check.words and "on 3 cores" in check.words
    assert "set OMP_NUM_THREADS=3" in check.advice


@pytest.mark.parametrize(("free", "state"), [(64 << 20, "problem"), (512 << 20, "note"), (4 << 30, "ok")])
def test_little_shared_memory_ends_loader_processes(monkeypatch, tmp_path, free, state):
    monkeypatch.setattr(doctor, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: Usage(free, 0, free))
    check = found("shared memory")
    assert check.state == state
    assert ("--shm-size" in check.advice) == (state != "ok")


@pytest.mark.parametrize(("free", "state"), [(1 << 20, "problem"), (512 << 20, "note"), (4 << 30, "ok")])
def test_little_room_on_disk(monkeypatch, free, state):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: Usage(free, 0, free))
    assert found("disk").state == state


def test_a_runs_folder_that_is_not_there_can_be_made_and_is_not(an_empty_place: Path):
    check = next(check for check in examine(an_empty_place / "a" / "b") if check.name == "runs folder")
    assert check == Check("runs folder", "ok", f"{an_empty_place / 'a' / 'b'} can be made")
    assert not (an_empty_place / "a").exists()


def test_a_runs_folder_below_a_file_is_a_problem(an_empty_place: Path):
    (an_empty_place / "file").touch()
    check = next(check for check in examine(an_empty_place / "file" / "runs") if check.name == "runs folder")
    assert check.state == "problem"
    assert "cannot be written: Not a directory" in check.words


def test_files_that_hide_a_module_are_named(an_empty_place: Path):
    for name in ("random.py", "torch.py", "queue.py", "mine.py", "notes.txt", "random.txt"):
        (an_empty_place / name).touch()
    check = found("module names")
    assert check.state == "problem"
    assert check.words.startswith("queue.py, random.py, torch.py in ")
    assert "rename it" in check.advice


def test_a_package_hides_a_module_and_a_plain_folder_does_not(an_empty_place: Path):
    (an_empty_place / "numpy").mkdir()
    (an_empty_place / "pandas").mkdir()
    (an_empty_place / "pandas" / "__init__.py").touch()
    (an_empty_place / "labkit").mkdir()
    (an_empty_place / "labkit" / "__init__.py").touch()
    assert [path.name for path in shadowing_files(an_empty_place)] == ["pandas"]


def test_python_itself_agrees_on_what_is_hidden(an_empty_place: Path):
    candidates = ["random", "queue", "statistics", "time", "os", "sys", "io"]
    for name in candidates:
        (an_empty_place / f"{name}.py").touch()
    script = (
        "import importlib, os, sys; here = os.getcwd()\n"
        f"for name in {candidates!r}:\n"
        "    file = getattr(importlib.import_module(name), '__file__', None) or ''\n"
        "    if os.path.dirname(file) == here: print(name)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stdout.split()) == [path.stem for path in shadowing_files(an_empty_place)]


def test_the_shipped_data_sets_are_whole():
    assert found("data sets").state == "ok"


def test_a_changed_photo_is_a_problem_that_names_it(an_empty_place: Path, monkeypatch: pytest.MonkeyPatch):
    root = an_empty_place / "data"
    (root / "photos").mkdir(parents=True)
    (root / "catalog.toml").write_text(
        '[photos]\ndescription = "x"\nfolder = "photos"\ncount = 1\nlicences = []\nchecksums = "photos/SHA256SUMS"\n'
        'made = ""\nsources = []\n'
    )
    (root / "photos" / "SHA256SUMS").write_text(f"{sha256(b'as shipped').hexdigest()}  a.jpg\n")
    (root / "photos" / "a.jpg").write_bytes(b"changed")
    monkeypatch.setenv("LABKIT_DATASETS", str(root))
    check = found("data sets")
    assert check.state == "problem"
    assert check.words == f"missing or changed in {root}: photos/a.jpg"


def test_data_sets_that_are_not_found_are_a_problem(monkeypatch: pytest.MonkeyPatch, an_empty_place: Path):
    monkeypatch.setenv("LABKIT_DATASETS", str(an_empty_place))
    assert found("data sets").state == "problem"
    assert "LABKIT_DATASETS" in found("data sets").advice


def test_a_machine_that_was_never_calibrated_is_a_note():
    check = found("calibration")
    assert (check.state, check.words) == ("note", "this machine has not been calibrated")
    assert "labkit calibrate" in check.advice


def test_a_calibration_is_counted_and_a_broken_or_outdated_one_is_told(monkeypatch: pytest.MonkeyPatch):
    machine = Machine("this", "This", "cpu", {name: Figure(2.0, "a test") for name in ("cores", "clock_ns")})
    write_machine(machine, this_machine_path())
    monkeypatch.setattr(doctor, "cuda_count", lambda: (0, "none"))
    assert found("calibration") == Check("calibration", "ok", f"2 figures in {this_machine_path()}")
    monkeypatch.setattr(doctor, "cuda_count", lambda: (1, ""))
    assert doctor._calibration().state == "note"
    this_machine_path().write_text("{")
    assert doctor._calibration().state == "problem"
