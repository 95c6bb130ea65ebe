"""One browser page with one notebook, driven as its user would drive it, with waits that do not race.

`open` waits for the notebook and its kernel. What runs cells waits for their end, unless told otherwise. Time is waited
for inside Playwright (`wait_for…`), never with `time.sleep`, which would hold back the page's events.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tests.browser.console import HARMLESS, Complaint
from tests.browser.lab import Kernel

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, CDPSession, ConsoleMessage, Locator

    from tests.browser.lab import JupyterLab

GUARD_S = 90
POLL_MS = 50
SAVES = 5
SAVED_MS = 3000
DRIVER = Path(__file__).with_name("driver.js")
Found = TypeVar("Found")


class NotebookPage:
    """A page of `lab` in `context`: `NotebookPage(context, lab).open("name.ipynb").run_all()`.

    Cells are counted from 0, code cells only. `page` is Playwright's own page, for clicks and locators.
    """

    def __init__(self, context: BrowserContext, lab: JupyterLab) -> None:
        self.lab = lab
        self.page = context.new_page()
        self.page.set_default_timeout(GUARD_S * 1000)
        self.page.add_init_script(path=DRIVER)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self._complaints.append(Complaint("exception", str(error), self.page.url)))
        self.notebook = ""
        self._complaints: list[Complaint] = []
        self._allowed: list[str] = []
        self._cdp: CDPSession | None = None

    # Opening and closing

    def open(self, notebook: str, *, kernel: bool = True) -> Self:
        """Opens `notebook`; a page that shows JupyterLab already opens a further tab. Waits for its kernel if asked to."""
        self.notebook = notebook
        if not self.page.url.startswith("http"):
            self.page.goto(self.lab.url(notebook))
            self.wait_for("window.jupyterapp && window.jupyterapp.restored.then(() => true)", "JupyterLab")
        self.page.evaluate("path => driver.open(path)", notebook)
        self.wait_for("driver.loaded()", f"{notebook} on the page")
        if kernel:
            self.wait_for_kernel()
        return self

    def close_tab(self) -> None:
        """Closes the notebook's tab inside JupyterLab; its kernel goes on, unsaved changes are dropped."""
        self.page.evaluate("driver.close()")
        self.wait_for("driver.panel() === null", f"the end of the tab of {self.notebook}")

    def close(self) -> None:
        """Closes the page as one closes a browser tab; the kernel goes on."""
        self.page.close()

    # Cells

    def run_all(self, *, wait: bool = True) -> None:
        """Runs all cells; with `wait` to their end, where a cell that failed is an AssertionError."""
        self._run("driver.start('notebook:run-all-cells')", "driver.cells().keys()", wait)

    def run(self, cell: int, *, wait: bool = True) -> None:
        """Runs one code cell; with `wait` to its end, where a failure is an AssertionError."""
        self._run(f"driver.run({cell})", f"[{cell}]", wait)

    def wait_until_done(self) -> None:
        """Waits until no cell runs or is queued, and the kernel is idle."""
        self.wait_for("driver.done()", "the end of the cells that run")
        self.wait_for_kernel()

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a code cell in the notebook format."""
        return self.page.evaluate("cell => driver.outputs(cell)", cell)

    def output(self, cell: int) -> Locator:
        """Where a code cell shows its outputs."""
        return self.page.locator(f'.jp-NotebookPanel[id="{self._panel_id()}"] .jp-CodeCell').nth(cell).locator(".jp-OutputArea").first

    def text(self, cell: int) -> str:
        """What a code cell shows, as its user reads it."""
        return self.output(cell).inner_text()

    # Kernel

    def wait_for_kernel(self) -> Kernel:
        """The notebook's kernel, once it is idle and this page is connected to it."""
        self.wait_for("driver.kernelReady()", f"a kernel of {self.notebook} that is idle and connected")
        return self.until(self._idle_kernel, f"the server's word that the kernel of {self.notebook} is idle")

    def restart_kernel(self) -> None:
        """Restarts the kernel by the menu's command, confirms the dialog, and waits for the new one."""
        self.page.evaluate("driver.start('notebook:restart-kernel')")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.wait_until_done()

    def interrupt_kernel(self) -> None:
        """Interrupts what the kernel runs; returns when nothing runs any more."""
        self.page.evaluate("driver.start('notebook:interrupt-kernel')")
        self.wait_until_done()

    def shut_down_kernel(self) -> None:
        """Shuts the kernel down by the menu's command; the notebook stays open without one."""
        self.page.evaluate("driver.start('notebook:shutdown-kernel')")
        self.wait_for("driver.pending === 0 && driver.kernel() === null", f"the end of the kernel of {self.notebook}")

    # File, looks, memory

    def save(self) -> Path:
        """Saves with Ctrl+S, again where an output changed meanwhile; the path of the notebook, once the file has all of it."""
        path = self.lab.root / self.notebook
        for _ in range(SAVES):
            before = path.stat().st_mtime_ns
            self.page.evaluate("window.jupyterapp.shell.activateById(driver.panel().id)")
            self.page.keyboard.press("Control+s")
            self.until(lambda before=before: path.stat().st_mtime_ns != before and _is_whole(path), f"a new {path.name} on disk")
            if self.comes_true("!driver.panel().context.model.dirty", SAVED_MS):
                return path
        raise AssertionError(f"{path.name} was saved {SAVES} times, and each time something changed meanwhile")

    def use_theme(self, name: str) -> None:
        """Switches this page to a theme (`lab.LIGHT`, `lab.DARK`); JupyterLab keeps it for later pages."""
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
        self.wait_for(f"document.body.dataset.jpThemeName === {json.dumps(name)}", f"the theme {name}")
        self.wait_for("!document.querySelector('.jp-Splash, #jupyterlab-splash')", "the end of the splash")

    def screenshot(self, path: Path) -> Path:
        """A picture of what the page shows now, as PNG."""
        self.page.screenshot(path=path)
        return path

    def js_heap_bytes(self) -> int:
        """What the page's JavaScript holds, right after a garbage collection."""
        if self._cdp is None:
            self._cdp = self.page.context.new_cdp_session(self.page)
            self._cdp.send("Performance.enable")
            self._cdp.send("HeapProfiler.enable")
        self._cdp.send("HeapProfiler.collectGarbage")
        metrics = self._cdp.send("Performance.getMetrics")["metrics"]
        return next(int(metric["value"]) for metric in metrics if metric["name"] == "JSHeapUsedSize")

    # Complaints and waiting

    def allow(self, pattern: str) -> None:
        """Complaints that match this regular expression are expected in this test."""
        self._allowed.append(pattern)

    def complaints(self) -> list[Complaint]:
        """Console errors and uncaught exceptions so far, without those that JupyterLab makes and those allowed."""
        return [complaint for complaint in self._complaints if not complaint.matches(*HARMLESS, *self._allowed)]

    def comes_true(self, expression: str, within_ms: float) -> bool:
        """Whether a JavaScript expression is true, or becomes so."""
        from playwright.sync_api import TimeoutError as Late

        try:
            self.page.wait_for_function(f"() => {expression}", polling=POLL_MS, timeout=within_ms)
        except Late:
            return False
        return True

    def wait_for(self, expression: str, what: str) -> None:
        """Waits until a JavaScript expression is true; `what` names it where it never is."""
        from playwright.sync_api import TimeoutError as Late

        try:
            self.page.wait_for_function(f"() => {expression}", polling=POLL_MS)
        except Late as late:
            raise AssertionError(self._waited_in_vain(what)) from late

    def until(self, condition: Callable[[], Found], what: str) -> Found:
        """What `condition` returns, once that is true or a thing; the page goes on meanwhile."""
        for _ in range(GUARD_S * 1000 // POLL_MS):
            if found := condition():
                return found
            self.page.wait_for_timeout(POLL_MS)
        raise AssertionError(self._waited_in_vain(what))

    def _run(self, start: str, cells: str, wait: bool) -> None:
        self.page.evaluate(start)
        if wait:
            self.wait_until_done()
            errors = self.page.evaluate(f"[...{cells}].flatMap((cell) => driver.errors(cell))")
            assert not errors, f"{self.notebook}: {'; '.join(errors)}"

    def _idle_kernel(self) -> Kernel | None:
        kernel = self.lab.kernel_of(self.notebook)
        return kernel if kernel and kernel.state == "idle" and kernel.connections else None

    def _panel_id(self) -> str:
        return self.page.evaluate("driver.panel().id")

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._complaints.append(Complaint("console", message.text, message.location.get("url", "")))

    def _waited_in_vain(self, what: str) -> str:
        said = "\n".join(map(str, self._complaints)) or "nothing"
        return f"waited {GUARD_S} s for {what}\nthe page said: {said}\nthe server said:\n{self.lab.log()}"


def _is_whole(notebook: Path) -> bool:
    """Whether the file can be read: JupyterLab may be in the middle of writing it."""
    try:
        json.loads(notebook.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return False
    return True
