"""The panel of notebook 01 in a real browser: what people do in a workshop, with both ipykernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.browser.equipment import one_ipykernel
from tests.browser.lab import DARK, JupyterLab
from tests.browser.page import NotebookPage
from tests.browser.panel_page import PanelPage

NOTEBOOK = "01_pipelined_training.ipynb"
PARAMETERS, SETUP, PANEL = 0, 1, 2
SMALL = "import labkit\npanel = labkit.Panel('pipeline', device='cpu', image_size=32, batch_size=4)\npanel"


def opened(page: NotebookPage) -> PanelPage:
    """Notebook 01 with its panel shown."""
    page.open(NOTEBOOK)
    page.run(PARAMETERS)
    page.run(SETUP)
    return PanelPage(page, PANEL).show()


def test_a_workshop_runs_toggles_pins_guesses_and_measures(page: NotebookPage, tmp_path: Path) -> None:
    panel = opened(page)

    # Run on the cpu, and flip a switch while it runs: the strip marks it and goes on.
    panel.runs()
    panel.choose("normalise_on", "gpu")
    page.until(lambda: panel.marks == 1, "the mark of the toggle")
    panel.moves(10)
    assert "measured on CPU threads" in panel.controls.inner_text()

    # A cold knob starts the worker anew, and says so.
    panel.fill("image_size", 64)
    page.until(lambda: "started anew" in panel.state() or panel.controls.get_attribute("data-phase") == "starting", "the restart")
    panel.until_phase("running")
    panel.moves(5)
    panel.stops()
    page.until(lambda: len(panel.figures()) == 5, "the figures of the run")

    # The naive program as A, the overlapped one as B, and a guess before it is measured.
    panel.choose("preset", "naive")
    panel.press("pin")
    panel.choose("preset", "overlapped")
    panel.unfold("Predict first")
    panel.controls.get_by_label("B is", exact=True).fill("1.5")
    panel.press("guess")
    panel.press("compare")
    panel.until_phase("comparing")
    panel.until_phase("idle")
    panel.until_shown("in 5 rounds in turns.")
    page.until(lambda: len(panel.figures()) == 6, "the guess beside the measurement, and the figures")
    titles = json.dumps([figure["layout"]["title"] for figure in panel.figures()])
    assert "guess" in titles.lower()

    # The same as a command.
    panel.unfold("Copy as")
    assert panel.controls.locator("textarea").input_value().startswith("labkit run pipeline --device cpu --prefetch 4")

    # A simulated GPU runs live, and says what it is.
    panel.choose("device", "simulated:h200")
    panel.runs()
    page.until(lambda: panel.strip.first.get_attribute("data-simulated") == "true", "the strip says that it is simulated")
    assert "simulated H200" in panel.controls.inner_text()
    panel.stops()
    page.screenshot(tmp_path / "panel-light.png")
    page.use_theme(DARK)
    page.screenshot(tmp_path / "panel-dark.png")


@one_ipykernel
def test_a_saved_notebook_is_small_and_reads_well_when_it_is_opened_again(
    lab: JupyterLab, new_page: Callable[[], NotebookPage]
) -> None:
    lab.write("saved.ipynb", [SMALL])
    page = new_page().open("saved.ipynb")
    panel = PanelPage(page, 0).show()
    panel.runs()
    panel.press("pin")
    panel.moves(30)
    panel.stops()
    panel.until_all_figures(curves=2)
    assert page.save().stat().st_size < 1_000_000
    page.shut_down_kernel()
    page.close()

    again = new_page().open("saved.ipynb")
    again.allow("widget model not found")  # the controls need the kernel that made them
    again.until(lambda: "bottleneck" in again.text(0), "what was found, in words")
    PanelPage(again, 0).until_all_figures(curves=2)
    assert "measured on CPU threads" in again.text(0)


@one_ipykernel
def test_interrupt_restart_and_a_closed_tab_leave_a_panel_that_can_be_used(
    lab: JupyterLab, new_page: Callable[[], NotebookPage]
) -> None:
    lab.write("moments.ipynb", [SMALL])
    page = new_page().open("moments.ipynb")
    panel = PanelPage(page, 0).show()
    panel.runs()
    page.interrupt_kernel()
    panel.stops()
    panel.runs()

    page.restart_kernel()
    page.until(lambda: not worker_pids(lab), "the end of the worker of the kernel that was restarted")
    panel.show()
    panel.runs()
    page.save()
    page.close()

    # The run goes on behind a closed tab; whoever opens the notebook again sees it and can stop it.
    again = new_page()
    again.allow("Comm not found")
    panel = PanelPage(again.open("moments.ipynb"), 0)
    panel.until_phase("running")
    panel.moves(3)
    panel.stops()
    panel.runs()
    panel.stops()


def worker_pids(lab: JupyterLab) -> list[int]:
    """The labkit workers below this server."""
    return [process.pid for process in lab.processes() if any("labkit.runner.worker" in word for word in process.cmdline())]


@one_ipykernel
def test_two_panels_do_not_disturb_each_other_and_take_turns(lab: JupyterLab, page: NotebookPage) -> None:
    lab.write("two.ipynb", [SMALL, SMALL.replace("panel", "other").replace("batch_size=4", "batch_size=8")])
    page.open("two.ipynb")
    first, second = PanelPage(page, 0).show(), PanelPage(page, 1).show()
    first.runs()
    second.press("run")
    second.until_phase("waiting")
    assert "another panel is running" in second.controls.inner_text()
    first.choose("augment_on", "gpu")
    assert second.controls.get_by_label("augment_on", exact=True).input_value() == "cpu"
    first.stops()
    second.until_phase("running")
    second.moves(5)
    second.stops()
    assert second.controls.get_by_label("batch_size", exact=True).input_value() == "8"


@one_ipykernel
def test_a_panel_shows_what_was_refused_and_what_to_do(lab: JupyterLab, page: NotebookPage) -> None:
    lab.write("refused.ipynb", ["import labkit\nlabkit.Panel('pipeline', device='cpu', data='/nowhere')"])
    panel = PanelPage(page.open("refused.ipynb"), 0).show()
    panel.press("run")
    page.until(lambda: panel.controls.get_by_role("alert").inner_text().strip() != "", "the message")
    panel.until_phase("idle")
    assert "/nowhere" in panel.controls.get_by_role("alert").inner_text()
