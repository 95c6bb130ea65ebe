"""The server of the browser tests itself: it tells why it did not start, and leaves nothing behind. Needs no browser."""

from pathlib import Path

import psutil
import pytest

from tests.browser.lab import JupyterLab, LabFailed


def test_a_server_that_dies_before_it_is_ready_tells_its_log(tmp_path: Path) -> None:
    with pytest.raises(LabFailed, match=r"ended with code 1 before it was ready:(.|\n)*Bad config"):
        JupyterLab(tmp_path, arguments=["--ServerApp.port=none"]).__enter__()


def test_server_and_kernels_are_gone_after_a_test_that_failed(tmp_path: Path) -> None:
    started: list[psutil.Process] = []

    def fail_with_a_kernel_running() -> None:
        with JupyterLab(tmp_path) as lab:
            lab.request("POST", "/api/kernels")
            assert len(lab.kernels()) == 1
            started.extend(lab.processes())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_with_a_kernel_running()
    assert len(started) >= 2
    assert not [process for process in started if process.is_running()]
