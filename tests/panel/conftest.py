"""A browser for the parts of the panel that are drawn there, and a kernel for those that live there."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.equipment import HERE, Ipykernel, missing_browser, need
from tests.panel.controls_page import browser
from tests.panel.kernel import Kernel, started
from tests.panel.listening import Heard, Make


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One Chromium for the tests of a file."""
    need(missing_browser())
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module", params=HERE, ids=lambda ipykernel: ipykernel.name)
def ipykernel(request: pytest.FixtureRequest) -> Ipykernel:
    """The ipykernel that the kernels of a file import."""
    return request.param


@pytest.fixture(scope="module")
def kernel(ipykernel: Ipykernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for the tests of a file, with labkit imported."""
    with started(ipykernel, tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel


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


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes sessions, and closes them."""
    made: list[Heard] = []

    def heard(*args: Any, **knobs: Any) -> Heard:
        made.append(Heard(*args, **knobs))
        return made[-1]

    yield heard
    for each in made:
        each.session.close()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Heard]:
    """One that stays warm, for tests that leave it at rest."""
    heard = Heard("simulated:t4")
    yield heard
    heard.session.close()


@pytest.fixture
def resting(simulated: Heard) -> Heard:
    """The warm session of the file, at rest and as it began."""
    simulated.session.stop()
    simulated.idle()
    simulated.session.reset()
    simulated.listener.states.clear()
    simulated.listener.results.clear()
    return simulated
