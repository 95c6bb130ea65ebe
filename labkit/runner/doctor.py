"""Is this machine fit for experiments? One check a question, each with what was found and what to do about it.

Looking changes nothing: no folder is made, and the one file that is written, to see whether that works, is gone again.
A check never raises: one that cannot be made says so.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labkit.device.cores import affinity_cores, available_cores, quota_cores
from labkit.device.machine import read_machine, this_machine_path
from labkit.device.open import cuda_count
from labkit.errors import LabkitError
from labkit.runner.shadowing import shadowing_files
from labkit.units import format_bytes

State = Literal["ok", "note", "problem"]
PYTHON = (3, 11)
SHARED_MEMORY = Path("/dev/shm")
GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Check:
    """One answer: `words` is what was found, `advice` what to do about it, "" where there is nothing to do."""

    name: str
    state: State
    words: str
    advice: str = ""


def examine(runs: Path | str = "runs") -> list[Check]:
    """Every check, in the order in which people would look. `runs` is the folder that runs are saved in. Never raises."""
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("Python", _python),
        ("PyTorch", _torch),
        ("CUDA", _cuda),
        ("NVML", _nvml),
        ("cores", _cores),
        ("threads", _threads),
        ("memory lock", _memory_lock),
        ("shared memory", _shared_memory),
        ("disk", lambda: _disk(Path.cwd(), Path(tempfile.gettempdir()))),
        ("runs folder", lambda: _runs_folder(Path(runs))),
        ("module names", lambda: _module_names(Path.cwd())),
        ("data sets", _data_sets),
        ("calibration", _calibration),
    ]
    return [_made(name, check) for name, check in checks]


def _made(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:  # a machine may be broken in any way, and the doctor must still speak
        return Check(name, "note", f"could not be examined: {type(error).__name__}: {error}")


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON:
        return Check("Python", "problem", f"{version} is too old", f"install Python {PYTHON[0]}.{PYTHON[1]} or newer")
    return Check("Python", "ok", f"{version} ({sys.executable})")


def _torch() -> Check:
    try:
        import torch
    except (ImportError, OSError) as error:
        return Check("PyTorch", "problem", f"cannot be imported: {error}", "install torch 2.8 or newer")
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU only"
    return Check("PyTorch", "ok", f"{torch.__version__}, {build}")


def _cuda() -> Check:
    count, reason = cuda_count()
    if count:
        import torch

        names = ", ".join(f"cuda:{index} {torch.cuda.get_device_name(index)}" for index in range(count))
        return Check("CUDA", "ok", names)
    driver = _driver_version()
    if driver:
        words = f"there is a driver ({driver}), but no CUDA GPU can be used: {reason}"
        return Check("CUDA", "problem", words, "install a torch built for CUDA, or look at CUDA_VISIBLE_DEVICES")
    return Check("CUDA", "note", f"no GPU here: {reason}", "use cpu, or simulated:h200 for a prediction")


def _driver_version() -> str:
    """The NVIDIA driver's version, "" where there is none that answers."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library, no driver, a broken one: all the same here, and the check for NVML says which
        return ""
    try:
        version = pynvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else version
    finally:
        pynvml.nvmlShutdown()


def _nvml() -> Check:
    try:
        import pynvml
    except ImportError as error:
        return Check("NVML", "note", f"cannot be imported: {error}", "install nvidia-ml-py, or do without GPU sensors")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Check("NVML", "note", f"no GPU sensors: {error}", "nothing to do where there is no NVIDIA GPU")
    try:
        count = pynvml.nvmlDeviceGetCount()
        return Check("NVML", "ok", f"{count} GPU{'s' if count != 1 else ''}, driver {_driver_version()}")
    finally:
        pynvml.nvmlShutdown()


def _cores() -> Check:
    cores, quota, host = available_cores(), quota_cores(), os.cpu_count() or 1
    limit = "no quota" if quota is None else f"a quota of {quota:g}"
    words = f"{cores} may be used: {affinity_cores()} by affinity, {limit}, {host} on the host"
    if cores < 2:
        return Check("cores", "note", words, "with one core, loading and computing cannot overlap: expect no gain from prefetch")
    return Check("cores", "ok", words)


def _threads() -> Check:
    """Thread pools as large as the host, under a quota, make each other slow."""
    cores = available_cores()
    chosen = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    words = ", ".join(f"{name}={value}" for name, value in chosen.items()) or "OMP_NUM_THREADS is not set"
    counts = [int(value) for value in chosen.values() if value.isdigit()]
    try:
        import torch

        counts.append(torch.get_num_threads())
        words += f", torch would use {torch.get_num_threads()}"
    except (ImportError, OSError):
        pass  # the check for PyTorch says so
    if max(counts, default=0) > cores:
        advice = f"set OMP_NUM_THREADS={cores} before Python starts (labkit's own lanes take one thread each)"
        return Check("threads", "problem", f"{words}, on {cores} cores", advice)
    return Check("threads", "ok", f"{words}, on {cores} cores")


def _memory_lock() -> Check:
    """CUDA pins through its driver, which most systems do not count against this limit."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit == resource.RLIM_INFINITY:
        return Check("memory lock", "ok", "no limit")
    words = f"{format_bytes(limit)} may be locked"
    if cuda_count()[0] and limit < GIB:
        return Check("memory lock", "note", words, "if pinning memory fails, raise it: ulimit -l unlimited")
    return Check("memory lock", "ok", f"{words}; nothing is pinned here" if not cuda_count()[0] else words)


def _shared_memory() -> Check:
    if not SHARED_MEMORY.is_dir():
        return Check("shared memory", "ok", f"{SHARED_MEMORY} is not here; worker processes use files")
    free = shutil.disk_usage(SHARED_MEMORY).free
    words = f"{format_bytes(free)} free in {SHARED_MEMORY}"
    if free < GIB:
        advice = "loader processes end with a bus error when it is full: start the container with --shm-size=2g"
        return Check("shared memory", "problem" if free < 128 * MIB else "note", words, advice)
    return Check("shared memory", "ok", words)


def _disk(*folders: Path) -> Check:
    free = {folder: shutil.disk_usage(folder).free for folder in folders}
    words = ", ".join(f"{format_bytes(size)} free in {folder}" for folder, size in free.items())
    least = min(free.values())
    if least < GIB:
        advice = "traces and records need room: free some, or save runs elsewhere"
        return Check("disk", "problem" if least < 64 * MIB else "note", words, advice)
    return Check("disk", "ok", words)


def _runs_folder(folder: Path) -> Check:
    """Writes where runs would be written: there, or in the nearest folder above it that is there."""
    folder = folder.expanduser().absolute()
    place = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        words = f"{folder} cannot be written: {error.strerror or error}"
        return Check("runs folder", "problem", words, "work in a folder of yours, or name another one")
    return Check("runs folder", "ok", f"{folder} can be written" if place == folder else f"{folder} can be made")


def _module_names(folder: Path) -> Check:
    found = [path.name for path in shadowing_files(folder)]
    if found:
        words = f"{', '.join(found)} in {folder} would be imported instead of the module of that name"
        return Check("module names", "problem", words, "rename it, or work in another folder")
    return Check("module names", "ok", f"nothing in {folder} hides a module")


def _data_sets() -> Check:
    from labkit.data import datasets_root, verify

    try:
        root = datasets_root()
        wrong = verify(root)
    except LabkitError as error:
        return Check("data sets", "problem", str(error), "set LABKIT_DATASETS to the datasets folder of a labkit checkout")
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        words = f"missing or changed in {root}: {', '.join(wrong[:3])}{more}"
        return Check("data sets", "problem", words, "restore them from the checkout")
    return Check("data sets", "ok", f"whole, in {root}")


def _calibration() -> Check:
    path = this_machine_path()
    if not path.is_file():
        advice = "run `labkit calibrate`: then simulated:this predicts it"
        return Check("calibration", "note", "this machine has not been calibrated", advice)
    try:
        machine = read_machine(path)
    except LabkitError as error:
        return Check("calibration", "problem", str(error), "run `labkit calibrate` again")
    if machine.kind == "cpu" and cuda_count()[0]:
        return Check("calibration", "note", f"{path} was made without the GPU that is here", "run `labkit calibrate` again")
    return Check("calibration", "ok", f"{len(machine.figures)} figures in {path}")
