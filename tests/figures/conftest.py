"""The runs that most tests draw."""

import pytest

from labkit.figures import Shown
from tests.figures.shown_runs import shown


@pytest.fixture(scope="session")
def a() -> Shown:
    """The synchronous program, taken for a measurement."""
    return shown("A", prefetch=0)


@pytest.fixture(scope="session")
def b() -> Shown:
    """The pipelined program, taken for a measurement."""
    return shown("B", prefetch=4, steps=160)


@pytest.fixture(scope="session")
def predicted_b() -> Shown:
    """The prediction of B for the machine that B was measured on."""
    return shown("B", prefetch=4, measured=False, device="simulated laptop", train_us=4, predicts="B")


@pytest.fixture(scope="session")
def on_h200() -> Shown:
    """What-if: B on a machine that nobody measured."""
    return shown("B", prefetch=4, measured=False, device="simulated H200", train_us=1)
