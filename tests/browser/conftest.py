"""A JupyterLab for each ipykernel, one Chromium, and a fresh page for each test.

They end with this folder's last test: Playwright holds an event loop in the main thread while it runs, and servers that
are not used would disturb tests that measure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.equipment import CHROMIUM, IPYKERNELS, Ipykernel, missing_browser, need
from tests.browser.lab import LIGHT, JupyterLab
from tests.browser.page import NotebookPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
FLAGS = ["--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no page reaches the network
VIEWPORT = {"width": 1400, "height": 1000}
FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Debian's Chromium, headless, without the user's own settings."""
    need(missing_browser())
    from playwright.sync_api import sync_playwright

    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("chromium"))}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, env=environment)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package", params=IPYKERNELS, ids=lambda ipykernel: ipykernel.name)
def ipykernel(request: pytest.FixtureRequest) -> Ipykernel:
    """The ipykernel that the kernels import; every test that asks for a page runs with each."""
    need(request.param.missing())
    return request.param


@pytest.fixture(scope="package")
def lab(browser: Browser, ipykernel: Ipykernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """A JupyterLab with copies of the project's notebooks."""
    folder = tmp_path_factory.mktemp("lab")
    with JupyterLab(folder, NOTEBOOKS, python_path=ipykernel.folder) as running:
        yield running


@pytest.fixture
def new_page(
    browser: Browser, lab: JupyterLab, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], NotebookPage]]:
    """Opens pages of one browser session. A complaint of any page fails the test; kernels end with it."""
    context = browser.new_context(viewport=VIEWPORT)
    pages: list[NotebookPage] = []

    def new() -> NotebookPage:
        pages.append(NotebookPage(context, lab))
        return pages[-1]

    yield new
    if request.node.stash.get(FAILED, False):
        _show_failure(pages, tmp_path)
    context.close()
    lab.shut_down_kernels()
    lab.use_theme(LIGHT)
    complaints = [str(complaint) for page in pages for complaint in page.complaints()]
    assert not complaints, "the page complained:\n" + "\n".join(complaints)


@pytest.fixture
def page(new_page: Callable[[], NotebookPage]) -> NotebookPage:
    """One page, nothing opened yet."""
    return new_page()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Lets the pages' fixture know that the test failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def _show_failure(pages: list[NotebookPage], folder: Path) -> None:
    """A picture of each page that is still open; pytest prints where."""
    for index, page in enumerate(pages):
        if not page.page.is_closed():
            print("the page at the failure:", page.screenshot(folder / f"page{index}.png"))
