"""What many tests share: a home folder of their own, so that no test reads or writes the user's calibration."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def labkit_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`$LABKIT_HOME` for the whole test run, also for its sub-processes."""
    home = tmp_path_factory.mktemp("labkit-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(home))
        yield home
