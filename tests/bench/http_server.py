"""A server over HTTP in processes of its own: started on a free port of 127.0.0.1, asked until it answers, and stopped with all that it has started.

Its processes are a group of their own, so that a Ctrl-C reaches the benchmark alone, which then stops them. Its input is a pipe that nobody
writes to: when it ends, the benchmark is gone, and the server ends itself (`contenders/http_model.py`).
"""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from tests.bench.contender import ROOT
from tests.bench.measure import BenchError
from tests.bench.open_loop_client import ECHO, HOST, complete_body, request_text

READY_S, END_S = 60.0, 10.0


class HttpServer:
    """Use as a context manager; `port` is where it listens once it is entered.

    python  the interpreter; module  its main module, which gets `arguments` and then `--port PORT`
    environment  what it gets over this process's own
    Raises BenchError where it does not answer, with what it said.
    """

    def __init__(self, python: Path | str, module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None):
        self._module = module
        self._command = [str(python), "-m", module, *arguments, "--port"]
        self._environment = dict(environment or {})
        self.port = 0

    def __enter__(self) -> Self:
        self.port = _free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self._said = Path(self._folder.name) / "said.txt"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*self._command, str(self.port)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=self._folder.name,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": self._folder.name, **_ONE_THREAD, **self._environment},
                start_new_session=True,
            )
        try:
            self._until_it_answers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ask it to end, and end what is left of its group."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                pass  # the group is ended below
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # the group has the number of its first process
        except ProcessLookupError:
            pass  # all of it has ended
        self._process.wait()
        self._process.stdin.close()
        self._folder.cleanup()

    def _until_it_answers(self) -> None:
        until = monotonic() + READY_S
        while not _answers(self.port):
            if self._process.poll() is not None or monotonic() > until:
                raise BenchError(f"{self._module} does not answer:\n{self._said.read_text(errors='replace')[-3000:]}")
            sleep(0.1)


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _answers(port: int) -> bool:
    """Whether a request gets a 200 within a second."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(request_text(ECHO))
            received = b""
            while complete_body(received) is None:
                data = connection.recv(4096)
                if not data:
                    return False
                received += data
            return received.startswith(b"HTTP/1.1 200")
    except (OSError, BenchError):
        return False


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind((HOST, 0))
        return asked.getsockname()[1]
