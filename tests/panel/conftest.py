"""A browser for the parts of the panel that are drawn there."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.equipment import missing_browser, need
from tests.panel.controls_page import browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One Chromium for the tests of a file."""
    need(missing_browser())
    with browser() as opened:
        yield opened


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A fresh page. Whatever it writes to the console, or fails with, fails the test."""
    opened = chromium.new_page(viewport={"width": 340, "height": 900})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    yield opened
    opened.close()
    assert said == []
