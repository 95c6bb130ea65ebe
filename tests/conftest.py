"""What many tests share: a home folder of their own, so that no test reads or writes the user's calibration, and a quiet machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.monitor import Surroundings
from tests.in_process import InProcess
from tests.threads import remember_threads


@pytest.fixture(scope="session", autouse=True)
def labkit_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`$LABKIT_HOME` for the whole test run, also for its sub-processes."""
    home = tmp_path_factory.mktemp("labkit-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(home))
        yield home


class QuietMachine(Surroundings):
    """Surroundings in which nobody else does anything."""

    def summary(self) -> dict[str, dict[str, Any]]:
        """As the real one's, with nobody in it."""
        read = super().summary()
        return {name: seen if name == "usable_cores" else seen | _always(float(name == "cpu_clock_share")) for name, seen in read.items()}


def _always(value: float) -> dict[str, Any]:
    return {"n": 1, "min": value, "mean": value, "max": value, "last": value, "reason": None}


@pytest.fixture(scope="session", autouse=True)
def simulated_runs_in_this_process() -> Iterator[None]:
    """Simulated runs of the public functions need no worker process, whose start costs seconds; measured ones have theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labkit.lab.Workers", InProcess)
        patch.setattr("labkit.peaks.Workers", InProcess)
        yield


@pytest.fixture(autouse=True)
def threads_of_this_test() -> None:
    """Tests that want no thread left look at their own."""
    remember_threads()


@pytest.fixture(scope="session", autouse=True)
def quiet_machine() -> Iterator[None]:
    """Runs of the tests are measured as if nobody else used the machine: tests run several at a time, and would make each other's runs WEAK.

    `labkit.monitor.Surroundings` itself is the real one everywhere else.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labkit.runner.watching.Surroundings", QuietMachine)
        yield
