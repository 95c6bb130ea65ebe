"""The sliders of what-if in JupyterLab: a key on a slider changes the answer below, and the saved notebook keeps it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.equipment import one_ipykernel
from tests.browser.lab import DARK, JupyterLab
from tests.browser.page import NotebookPage
from tests.browser.panel_page import PLOTLY

pytestmark = pytest.mark.browser
SLIDERS = 'import labkit\nrun = labkit.run("pipeline", device="simulated:l4", steps=60, model="large")\nlabkit.WhatIf(run)'


def figures(page: NotebookPage) -> list[str]:
    return [output["data"]["text/plain"] for output in page.outputs(0) if PLOTLY in output.get("data", {})]


def changes(page: NotebookPage) -> list[str]:
    """The titles of the figures with what stands below them: the first says which change it shows."""
    return [output["data"][PLOTLY]["layout"]["title"]["text"] for output in page.outputs(0) if PLOTLY in output.get("data", {})]


@one_ipykernel
def test_a_slider_is_turned_and_the_answer_below_changes_and_stays(
    lab: JupyterLab, new_page: Callable[[], NotebookPage], tmp_path: Path
) -> None:
    lab.write("sliders.ipynb", [SLIDERS])
    page = new_page().open("sliders.ipynb")
    page.run(0)
    page.until(lambda: "as it was: 1.00×" in page.text(0), "the answer without a change")
    page.until(lambda: len(figures(page)) == 2, "both figures")
    page.until(lambda: page.output(0).locator(".noUi-handle").count() > 3, "the sliders")
    first = page.output(0).locator(".noUi-handle").first
    first.focus()
    for _ in range(3):
        first.press("ArrowRight")
    page.until(lambda: "in 0.5 of its time" in page.text(0), "the answer with the first stage twice as fast")
    page.screenshot(tmp_path / "whatif-light.png")
    page.use_theme(DARK)
    page.screenshot(tmp_path / "whatif-dark.png")

    page.output(0).get_by_role("button", name="As it was").click()
    page.until(lambda: "as it was: 1.00×" in page.text(0), "the answer without a change again")
    page.until(lambda: len(changes(page)) == 2 and "as it was" in changes(page)[0], "the figure without a change again, not a gap where it will be")
    assert page.save().stat().st_size < 200_000
    page.close()
    again = new_page().open("sliders.ipynb")
    again.allow("widget model not found")
    again.until(lambda: "as it was: 1.00×" in again.text(0), "the answer in the saved notebook")
    again.until(lambda: figures(again) == ["Bound, prediction and measurement", "If a stage were faster"], "the figures in the saved notebook")
