"""The driver of the page does what its user would do: interrupt, restart, themes, closing a tab, errors that are noticed."""

import re

import pytest

from tests.browser.equipment import one_ipykernel
from tests.browser.lab import DARK, LIGHT, JupyterLab
from tests.browser.page import NotebookPage

pytestmark = [pytest.mark.browser, one_ipykernel]


def test_a_cell_is_interrupted_and_a_restarted_kernel_has_forgotten(lab: JupyterLab, page: NotebookPage) -> None:
    lab.write("long.ipynb", ["x = 1", "import time\ntime.sleep(600)", "print('x' in dir())", "1 / 0"])
    page.open("long.ipynb").run(0)
    page.run(1, wait=False)
    page.until(lambda: lab.kernel_of("long.ipynb").state == "busy", "a busy kernel")
    page.interrupt_kernel()
    assert page.outputs(1)[0]["ename"] == "KeyboardInterrupt"

    page.run(2)
    assert page.text(2).strip() == "True"
    page.restart_kernel()
    page.run(2)
    assert page.text(2).strip() == "False"

    with pytest.raises(AssertionError, match=r"cell 3: ZeroDivisionError"):
        page.run(3)


def test_a_closed_tab_keeps_its_kernel_and_errors_of_the_page_are_noticed(lab: JupyterLab, page: NotebookPage) -> None:
    lab.write("closed.ipynb", ["x = 1", "print(x)"])
    lab.use_theme(DARK)
    page.open("closed.ipynb").run(0)
    dark = _background(page)
    page.use_theme(LIGHT)
    assert sum(dark) < 200 < 600 < sum(_background(page))

    kernel = lab.kernel_of("closed.ipynb")
    page.close_tab()
    assert [left.id for left in lab.kernels()] == [kernel.id]
    page.open("closed.ipynb").run(1)
    assert page.text(1).strip() == "1"

    page.page.evaluate("console.error('planted'); setTimeout(() => { throw new Error('thrown'); })")
    page.until(lambda: len(page.complaints()) == 2, "two complaints")
    assert {complaint.kind for complaint in page.complaints()} == {"console", "exception"}
    page.allow("planted|thrown")
    assert not page.complaints()


def _background(page: NotebookPage) -> list[int]:
    """Red, green and blue of the notebook's ground."""
    colour = page.page.evaluate("getComputedStyle(driver.panel().node).backgroundColor")
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]
