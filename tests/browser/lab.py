"""A JupyterLab server of the tests' own: free port, folders of its own, nothing left behind.

It is a context manager. Everything that it starts, kernels and what they started included, carries this server's own
`$LABKIT_HOME` in its environment; that is how the end finds what is still there.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nbformat
import psutil

LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
START_S, STOP_S, REQUEST_S = 120, 20, 30
FORGOTTEN_S = 900  # a server whose test run was killed ends by itself after this time
LOG_LINES = 40
_KERNELSPEC = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


class LabFailed(AssertionError):
    """JupyterLab did not start, or died, or answered what it should not; the message ends with its log."""


@dataclass(frozen=True)
class Kernel:
    """One kernel as the server sees it: `state` is starting, idle, busy, …; `connections` counts websockets."""

    id: str
    state: str
    connections: int


class JupyterLab:
    """A running JupyterLab: `with JupyterLab(folder, notebooks=[path]) as lab: … lab.url("name.ipynb") …`.

    `folder` is an empty folder. `notebooks` are copied into its `root`, where notebooks are opened. `python_path` stands
    first in the kernels' PYTHONPATH. `arguments` are further words of the command line.
    """

    def __init__(
        self,
        folder: Path,
        notebooks: Sequence[Path] = (),
        *,
        python_path: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.folder, self.root, self.home = folder, folder / "root", folder / "labkit-home"
        self._token = secrets.token_hex(16)
        self._python_path, self._arguments = python_path, arguments
        self._log = folder / "lab.log"
        self._server: subprocess.Popen[bytes] | None = None
        self._address = ""
        for made in (self.root, self.home):
            made.mkdir(parents=True)
        for notebook in notebooks:
            (self.root / notebook.name).write_bytes(notebook.read_bytes())

    def __enter__(self) -> Self:
        self._switch_news_off()
        self._server = self._started()
        try:
            self._address = self._ready_address()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def url(self, notebook: str) -> str:
        """The address of `notebook`, in a workspace of its own: pages that share one would move each other's tabs."""
        workspace = secrets.token_hex(4)
        return f"{self._address}/lab/workspaces/{workspace}/tree/{notebook}?token={self._token}&reset"

    def write(self, name: str, cells: Sequence[str]) -> Path:
        """A new notebook with these code cells; its path on disk."""
        path = self.root / name
        code = [nbformat.v4.new_code_cell(source) for source in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=code, metadata={"kernelspec": _KERNELSPEC}), path)
        return path

    def use_theme(self, name: str) -> None:
        """Pages opened from now on have this theme: `LIGHT` or `DARK`."""
        settings = self.folder / "config/lab/user-settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": name}))

    def request(self, method: str, path: str) -> Any:
        """One call of the server's REST interface (`"GET", "/api/kernels"`); what it answers, read from JSON."""
        headers = {"Authorization": f"token {self._token}"}
        call = urllib.request.Request(self._address + path, method=method, headers=headers)
        with urllib.request.urlopen(call, timeout=REQUEST_S) as answer:
            return json.loads(answer.read() or "null")

    def kernels(self) -> list[Kernel]:
        """The kernels that run. While one starts the server answers HTTP 500: it is asked again, for a while."""
        give_up = time.monotonic() + REQUEST_S
        while True:
            try:
                found = self.request("GET", "/api/kernels")
            except urllib.error.HTTPError as error:
                if error.code != 500 or time.monotonic() > give_up:
                    raise
                time.sleep(0.05)
            else:
                return [Kernel(row["id"], row["execution_state"], row["connections"]) for row in found]

    def kernel_of(self, notebook: str) -> Kernel | None:
        """The kernel of this notebook, or None where it has none (yet)."""
        sessions = self.request("GET", "/api/sessions")
        ids = {row["kernel"]["id"] for row in sessions if row["path"] == notebook and row["kernel"]}
        return next((kernel for kernel in self.kernels() if kernel.id in ids), None)

    def shut_down_kernels(self) -> None:
        """Ends all kernels; returns when they have ended."""
        for kernel in self.kernels():
            try:
                self.request("DELETE", f"/api/kernels/{kernel.id}")
            except urllib.error.HTTPError as error:
                if error.code != 404:  # 404: the page ended it in the meantime
                    raise

    def processes(self) -> list[psutil.Process]:
        """Every process that this server and its kernels started, and that is still there; the server is one of them."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def stop(self) -> None:
        """Ends the server, its kernels and what they started: asked first, killed after `STOP_S` seconds."""
        if self._server is None:
            return
        self._server.terminate()
        try:
            self._server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None
        _, left = psutil.wait_procs(self.processes(), STOP_S)
        for process in left:
            process.kill()
        psutil.wait_procs(left, STOP_S)

    def log(self) -> str:
        """The last lines of what the server and its kernels wrote."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-LOG_LINES:])

    def _switch_news_off(self) -> None:
        settings = self.folder / "config/labconfig"
        settings.mkdir(parents=True)
        off = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
        (settings / "page_config.json").write_text(json.dumps(off))

    def _started(self) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
            *(f"--port={_free_port()}", f"--ServerApp.root_dir={self.root}", "--LabApp.expose_app_in_browser=True"),
            *("--LabApp.extension_manager=readonly", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
            f"--ServerApp.shutdown_no_activity_timeout={FORGOTTEN_S}",
            f"--MappingKernelManager.cull_idle_timeout={FORGOTTEN_S}",
            *self._arguments,
        ]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.root,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        """Ours, without what would lead to the user's own Jupyter."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "IPYTHON"))}
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
        }
        own = {name: str(self.folder / folder) for name, folder in folders.items()}
        paths = [str(self._python_path or ""), os.environ.get("PYTHONPATH", "")]
        own["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        return {**kept, **own, "JUPYTER_TOKEN": self._token, "LABKIT_HOME": str(self.home)}

    def _ready_address(self) -> str:
        """Where the server answers, read from the file that it writes: another program may have taken the port."""
        assert self._server is not None
        written = self.folder / f"runtime/jpserver-{self._server.pid}.json"
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            if self._server.poll() is not None:
                raise LabFailed(f"JupyterLab ended with code {self._server.returncode} before it was ready:\n{self.log()}")
            try:
                self._address = json.loads(written.read_text())["url"].rstrip("/")
                self.request("GET", "/api/status")
            except (FileNotFoundError, json.JSONDecodeError, urllib.error.URLError):
                time.sleep(0.05)
            else:
                return self._address
        raise LabFailed(f"JupyterLab was not ready after {START_S} s:\n{self.log()}")

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("LABKIT_HOME") == str(self.home) and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:  # ended meanwhile, or another user's
            return False


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
