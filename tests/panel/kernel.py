"""A kernel and what a browser would do with it, without a browser: cells are executed, messages are kept as a page keeps them, commands
are sent as the page sends them, and frames of the strip are acknowledged as if they had been painted.

Nothing runs in the background: messages are read while something is waited for (`Kernel.until`), in the test's own thread.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from time import monotonic, sleep
from typing import Any, Self

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.browser.equipment import Ipykernel, need

HANG_S = 90.0
CROSSED = "No such comm"
"""What the kernel says of a page's message that has crossed with the end of its widget."""
WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"
Message = dict[str, Any]


@dataclass
class Cell:
    """A cell that is or was executed, with all that it shows, in the order of the page.

    error   the error that it shows
    status  how the kernel says that it ended: "ok" or "error"; "" before
    """

    id: str
    outputs: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    error: str = ""
    idle: bool = False
    status: str = ""

    @property
    def done(self) -> bool:
        """Whether the kernel has finished with it."""
        return self.idle and self.status != ""

    def shown(self, mimetype: str) -> list[Any]:
        """What it shows of one kind."""
        return [output[mimetype] for output in self.outputs if mimetype in output]


@dataclass(frozen=True)
class Custom:
    """A message of a widget that is not about its state, and when the kernel sent it, in seconds."""

    content: Any
    buffers: list[bytes]
    sent_s: float


@dataclass
class Model:
    """A widget as the page knows it."""

    comm_id: str
    state: dict[str, Any]
    updates: list[dict[str, Any]] = field(default_factory=list)
    customs: list[Custom] = field(default_factory=list)
    closed: bool = False

    @property
    def name(self) -> str:
        """Its class, for one of the panel's own widgets."""
        return str(self.state.get("_anywidget_id", self.state.get("_model_name", ""))).rpartition(".")[2]


class Kernel:
    """One kernel. Use as a context manager.

    folder       where its cells run
    python_path  a folder that goes before all others: another ipykernel
    environment  variables besides those of this process
    """

    def __init__(self, folder: Path, python_path: Path | None = None, environment: dict[str, str] | None = None):
        self.models: dict[str, Model] = {}
        self.unread: list[Message] = []
        self.stray = ""
        self.paints = True
        self._cells: dict[str, Cell] = {}
        self._places: dict[str, list[dict[str, Any]]] = {}
        self._sockets = Path(tempfile.mkdtemp(prefix="labkit-"))
        paths = [str(python_path or ""), os.environ.get("PYTHONPATH", "")]
        own = {"PYTHONPATH": os.pathsep.join(path for path in paths if path), "IPYTHONDIR": str(folder / ".ipython")}
        self._manager = KernelManager(
            kernel_name="python3",
            transport="ipc",
            ip=str(self._sockets / "k"),
            connection_file=str(self._sockets / "kernel.json"),
        )
        self._manager.start_kernel(env={**os.environ, **own, **(environment or {})}, cwd=str(folder))
        self.client = self._connected()

    # ---- the process --------------------------------------------------------------------------------------

    @property
    def process(self) -> psutil.Process:
        """The kernel's process."""
        return psutil.Process(self._manager.provisioner.pid)

    def children(self) -> list[psutil.Process]:
        """All that the kernel has started, and what that has started."""
        return self.process.children(recursive=True)

    def interrupt(self) -> None:
        """As the page's button does."""
        self._manager.interrupt_kernel()

    def restart(self) -> None:
        """As the page's menu does."""
        self.client.stop_channels()
        self._manager.restart_kernel()
        self.models.clear()
        self.client = self._connected()

    def shut_down(self) -> None:
        """As the page's menu does."""
        self._manager.shutdown_kernel()

    def kill(self) -> None:
        """End it without a word, as a machine out of memory does."""
        self._manager.provisioner.process.kill()
        self._manager.provisioner.process.wait()

    def close(self) -> None:
        """End it, whatever has happened to it."""
        self.client.stop_channels()
        if self._manager.is_alive():
            self._manager.shutdown_kernel()
        self._manager.cleanup_resources()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> BlockingKernelClient:
        client = self._manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=HANG_S)
        return client

    # ---- cells --------------------------------------------------------------------------------------------

    def begin(self, source: str, *, cell: str = "", people: bool = True) -> Cell:
        """Begin to execute a cell.

        cell    its id in the notebook
        people  whether it may ask for input, as a page may and nbclient may not
        """
        content = {
            "code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": people, "stop_on_error": True
        }  # fmt: skip
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
        begun = self._cells[message["header"]["msg_id"]] = Cell(message["header"]["msg_id"])
        self.client.shell_channel.send(message)
        return begun

    def execute(self, source: str, *, cell: str = "", people: bool = True, fails: bool = False) -> Cell:
        """Execute a cell to its end."""
        begun = self.begin(source, cell=cell, people=people)
        self.until(lambda: begun.done, f"the end of {source!r}")
        assert (begun.status == "error") == fails, begun.error or f"{source!r} did not fail"
        return begun

    def value(self, expression: str) -> Any:
        """A plain value from the kernel."""
        printed = self.execute(f"print(repr({expression}))").printed
        return eval(printed, {"__builtins__": {}})  # a repr that this test has asked for

    # ---- messages -----------------------------------------------------------------------------------------

    def say(self, model: Model, content: Any) -> None:
        """Send a custom message of a widget as the page does."""
        self.tell(model.comm_id, {"method": "custom", "content": content})

    def tell(self, comm_id: str, data: Any) -> None:
        """Send what a page sends on a comm."""
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        self.client.shell_channel.send(message)

    def all_states(self) -> dict[str, Message]:
        """The states of all widgets, as a page asks for them when it is opened again."""
        control = Model("control", {})
        content = {"comm_id": control.comm_id, "target_name": "jupyter.widget.control", "data": {}}
        opening = self.client.session.msg("comm_open", content, metadata={"version": "1.0.0"})
        self.models[control.comm_id] = control
        self.client.shell_channel.send(opening)
        self.tell(control.comm_id, {"method": "request_states"})
        self.until(lambda: control.updates, "the states of all widgets")
        return self.models.pop(control.comm_id).updates[0]

    def until(self, condition: Callable[[], Any], what: str = "it", guard_s: float = HANG_S) -> Any:
        """Read messages until something is so; fails rather than hangs."""
        deadline = monotonic() + guard_s
        while not (found := condition()):
            assert monotonic() < deadline, f"waited {guard_s:.0f} s for {what}; printed besides: {self.stray}"
            assert self._manager.is_alive(), f"the kernel ended while waiting for {what}"
            self.read(0.1)
        return found

    def read(self, wait_s: float = 0.0) -> None:
        """Read what has come; wait this long for the first of it."""
        try:
            while True:
                self._take(self.client.iopub_channel.get_msg(timeout=wait_s))
                wait_s = 0.0
        except Empty:
            pass
        try:
            while True:
                reply = self.client.shell_channel.get_msg(timeout=0)
                if (cell := self._cells.get(reply["parent_header"].get("msg_id", ""))) is not None:
                    cell.status = reply["content"]["status"]
        except Empty:
            pass

    def _take(self, message: Message) -> None:
        kind, content = message["msg_type"], message["content"]
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if kind == "status" and cell is not None:
            cell.idle = content["execution_state"] == "idle"
        elif kind == "stream" and cell is not None:
            cell.printed += content["text"]
        elif kind == "stream" and not content["text"].startswith(CROSSED):
            self.stray += content["text"]
        elif kind == "error" and cell is not None:
            cell.error = f"{content['ename']}: {content['evalue']}"
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self._show(kind, content, cell)
        elif kind.startswith("comm_"):
            self._take_comm(kind, message)

    def _show(self, kind: str, content: Message, cell: Cell | None) -> None:
        place = content.get("transient", {}).get("display_id")
        if kind == "update_display_data":
            for output in self._places.get(place, ()):
                output.clear()
                output.update(content["data"])
            self.unread += [] if place in self._places else [content]
            return
        output = dict(content["data"])
        (cell.outputs if cell is not None else self.unread).append(output)
        if place:
            self._places.setdefault(place, []).append(output)

    def _take_comm(self, kind: str, message: Message) -> None:
        content = message["content"]
        if kind == "comm_open":
            self.models[content["comm_id"]] = Model(content["comm_id"], content["data"]["state"])
            return
        model = self.models.get(content["comm_id"])
        if model is None:
            return
        data = content["data"]
        if kind == "comm_close":
            model.closed = True
        elif data["method"] == "update_states":
            model.updates.append(data["states"])
        elif data["method"] == "update":
            model.state.update(data["state"])
            model.updates.append(data["state"])
        elif data["method"] == "custom":
            buffers = [bytes(buffer) for buffer in message["buffers"]]
            model.customs.append(Custom(data["content"], buffers, message["header"]["date"].timestamp()))
            if self.paints and model.name == "LiveStrip":
                self.say(model, {"ack": data["content"]["n"]})


def started(ipykernel: Ipykernel, folder: Path) -> Kernel:
    """A kernel with this ipykernel and a home of its own, that has imported labkit. Skips the test where there is none."""
    need(ipykernel.missing())
    kernel = Kernel(folder, ipykernel.folder, {"LABKIT_HOME": str(folder / "home")})
    assert kernel.value("__import__('ipykernel').__version__") == ipykernel.version()
    kernel.execute("import labkit")
    return kernel


def ended(processes: Iterable[psutil.Process], guard_s: float = 30.0) -> bool:
    """Whether all of them end within this time."""
    deadline = monotonic() + guard_s
    while any(map(_lives, processes)):
        if monotonic() > deadline:
            return False
        sleep(0.05)
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
