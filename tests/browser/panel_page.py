"""The panel on a page, as somebody in front of it uses it: by labels and buttons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser.page import NotebookPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

PLOTLY = "application/vnd.plotly.v1+json"
FIGURES = 5


class PanelPage:
    """The panel that a code cell shows. Its waits end at the page's guard."""

    def __init__(self, page: NotebookPage, cell: int) -> None:
        self.page, self.cell = page, cell

    @property
    def controls(self) -> Locator:
        """The widget with the knobs and buttons."""
        return self.page.output(self.cell).locator(".labkit-controls")

    @property
    def strip(self) -> Locator:
        """The widget that moves."""
        return self.page.output(self.cell).locator("[data-painted]")

    def show(self) -> PanelPage:
        """Run its cell and wait until it can be used."""
        self.page.run(self.cell)
        self.until_phase("idle")
        return self

    def press(self, do: str) -> None:
        """Press a button by what it does: run, stop, pin, compare, reset, guess."""
        self.controls.locator(f"[data-do={do}]").click()

    def choose(self, label: str, value: str) -> None:
        """Choose in a drop-down by its label."""
        self.controls.get_by_label(label, exact=True).select_option(value)

    def fill(self, label: str, value: object) -> None:
        """Type into a field, and leave it."""
        field = self.controls.get_by_label(label, exact=True)
        field.fill(str(value))
        field.press("Enter")

    def unfold(self, words: str) -> None:
        """Open one of the folded parts."""
        self.controls.locator("summary", has_text=words).click()

    def until_phase(self, phase: str) -> None:
        """Wait until the controls say this phase."""
        self.page.until(lambda: self.controls.get_attribute("data-phase") == phase, f"the phase {phase}: {self.state()}")

    def runs(self) -> None:
        """Press Run and wait until the strip moves."""
        painted = self.painted
        self.press("run")
        self.until_phase("running")
        self.moves(5, painted)

    def stops(self) -> None:
        """Press Stop and wait until it rests."""
        self.press("stop")
        self.until_phase("idle")

    def moves(self, frames: int, since: int | None = None) -> None:
        """Wait until the strip has been painted so many times more."""
        begun = self.painted if since is None else since
        self.page.until(lambda: self.painted >= begun + frames, f"{frames} more pictures of the strip: {self.state()}")

    @property
    def painted(self) -> int:
        """How often the strip has been painted."""
        return int(self.strip.first.get_attribute("data-painted") or 0)

    @property
    def marks(self) -> int:
        """How many toggles the strip shows."""
        return int(self.strip.first.get_attribute("data-marks") or 0)

    def figures(self) -> list[dict[str, Any]]:
        """The plotly figures below the panel, as the notebook has them."""
        return [output["data"][PLOTLY] for output in self.page.outputs(self.cell) if PLOTLY in output.get("data", {})]

    def until_all_figures(self, curves: int) -> None:
        """Wait until the last drawing is done: its last figure, the distribution, has so many curves, and none before it is a gap.

        A drawing replaces figure after figure, so that a count of figures alone may be of the drawing before.
        """

        def whole() -> bool:
            figures = self.figures()
            return len(figures) == FIGURES and len(figures[-1]["data"]) == curves

        self.page.until(whole, f"the figures of {curves} runs: {self.state()}")

    def until_shown(self, words: str) -> None:
        """Wait until this stands below the panel."""
        self.page.until(lambda: words in self.page.text(self.cell), f"{words!r} below the panel: {self.state()}")

    def state(self) -> str:
        """What the controls say, for the message of a failure."""
        return self.controls.inner_text()[:300] if self.controls.count() else "no controls"
