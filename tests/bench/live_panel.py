"""A live panel in a real JupyterLab in a real browser, for benchmarks: it is operated, and its page says what it saw, and when.

The browser has no GPU, so that its pictures cost the machine's cores more than most people's do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from labkit.store import StoredRun, load_run
from tests.bench.measure import BenchError
from tests.browser.equipment import CHROMIUM, missing_browser
from tests.browser.page import NotebookPage
from tests.browser.panel_page import PanelPage

LISTENER = Path(__file__).with_name("live_panel.js")
KNOB = "normalise_on"  # live, and of two values
GUARD_S = 60.0
QUIET_S, QUIET_CORES, QUIET_AT_LAST_S = 0.5, 0.06, 30.0


@dataclass(frozen=True)
class Paint:
    """The strip was drawn: the page's time, and the time of the strip that it shows."""

    at_ms: float
    now_s: float


@dataclass(frozen=True)
class Message:
    """A message between page and kernel.

    kind    "strip", "ack", "command", "update of values", or Jupyter's own name
    number  of a strip's message, of a command, or of the last command that the values have heard
    bytes   0 where they are not counted
    now_s   of a strip's message: the time that it shows; `mark_s` that of its newest toggle
    """

    at_ms: float
    kind: str
    bytes: int
    number: int | None = None
    now_s: float | None = None
    mark_s: float | None = None


@dataclass(frozen=True)
class Seen:
    """What a page saw in a while, in order."""

    paints: tuple[Paint, ...] = ()
    messages: tuple[Message, ...] = ()

    @property
    def updates_per_s(self) -> float:
        """Pictures of the strip a second, from the first to the last."""
        if len(self.paints) < 2:
            return 0.0
        return (len(self.paints) - 1) / (self.paints[-1].at_ms - self.paints[0].at_ms) * 1000

    def __add__(self, later: Seen) -> Seen:
        return Seen(self.paints + later.paints, self.messages + later.messages)


@contextmanager
def notebook_page() -> Iterator[NotebookPage]:
    """A page of a JupyterLab of its own. Raises BenchError where there is no browser, and for whatever goes wrong on the page."""
    if missing := missing_browser():
        raise BenchError(missing)
    from playwright.sync_api import Error, sync_playwright

    from tests.browser.conftest import FLAGS, VIEWPORT
    from tests.browser.lab import JupyterLab

    try:
        with (
            TemporaryDirectory(prefix="labkit-bench-") as folder,
            JupyterLab(Path(folder) / "lab") as lab,
            sync_playwright() as playwright,
            playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as chromium,
        ):
            page = NotebookPage(chromium.new_context(viewport=VIEWPORT), lab)
            page.page.add_init_script(path=LISTENER)
            yield page
    except (AssertionError, Error) as error:
        raise BenchError(str(error)) from error


class LivePanel:
    """The panel that the first of `cells` shows, in a notebook of its own; it is shown when this returns."""

    def __init__(self, page: NotebookPage, notebook: str, *cells: str):
        page.lab.write(notebook, cells)
        self.page, self.panel = page.open(notebook), PanelPage(page, 0)
        self.panel.show()
        page.until(lambda: self.panel.painted, "the first picture of the strip")
        handles = [part.first.element_handle() for part in (self.panel.strip, self.panel.controls)]
        page.page.evaluate("([strip, controls]) => seen.watch(strip, controls, driver.kernel())", handles)

    def take(self) -> Seen:
        """What the page has seen since the last call."""
        seen: dict[str, list[dict[str, Any]]] = self.page.page.evaluate("seen.take()")
        return Seen(
            tuple(Paint(**paint) for paint in seen["paints"]),
            tuple(Message(**message) for message in seen["messages"]),
        )

    def run(self) -> Seen:
        """Press Run and wait for the end of the run, without a question to the page meanwhile. What the page saw of it."""
        self.take()
        self.page.page.evaluate("guard_ms => seen.run(guard_ms)", GUARD_S * 1000)
        return self.take()

    def turn(self) -> float:
        """Turn a live knob; the page's time, in ms."""
        return self.page.page.evaluate("knob => seen.turn(knob)", KNOB)

    def ping(self) -> None:
        """Send a command that changes nothing."""
        self.page.page.evaluate("seen.ping()")

    def wait(self, seconds: float) -> None:
        """Let time pass; the page goes on."""
        self.page.page.wait_for_timeout(seconds * 1000)

    def last_run(self) -> StoredRun:
        """The newest run that the kernel has saved. Raises BenchError where it did not succeed."""
        stored = load_run("last", self.page.lab.root / "runs")
        if stored.record.status != "ok":
            raise BenchError(f"a run of the panel {stored.record.status}: {stored.record.reason}")
        return stored

    @property
    def kernel(self) -> psutil.Process:
        """The process of the notebook's kernel."""
        kernel = self.page.lab.kernel_of(self.page.notebook)
        assert kernel is not None
        return next(each for each in self.page.lab.processes() if f"kernel-{kernel.id}.json" in " ".join(each.cmdline()))

    def processes(self) -> list[psutil.Process]:
        """All that the panel needs: JupyterLab's, the browser's, and the driver of the browser."""
        ours = psutil.Process().children(recursive=True)
        browser = [each for each in ours if each.name() == "chromium" or "run-driver" in each.cmdline()]
        return [*self.page.lab.processes(), *browser]

    def until_quiet(self) -> None:
        """Wait until what was shown last has been drawn: until nothing of it computes. Raises BenchError where that never comes."""
        processes = self.processes()
        before_s = _cpu_s(processes)
        for _ in range(int(QUIET_AT_LAST_S / QUIET_S)):
            self.wait(QUIET_S)
            now_s = _cpu_s(processes)
            if now_s - before_s < QUIET_CORES * QUIET_S:
                return
            before_s = now_s
        raise BenchError(f"the panel and its browser were still busy {QUIET_AT_LAST_S:.0f} s after the last run")

    def close(self) -> None:
        """End the kernel, and close the tab."""
        self.page.shut_down_kernel()
        self.page.close_tab()


def _cpu_s(processes: list[psutil.Process]) -> float:
    """CPU time of all of them so far; those that have ended count as nothing."""
    total_s = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total_s += times.user + times.system
    return total_s
