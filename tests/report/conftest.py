"""Makes `recorded`, and `shown_runs` of the figures' tests, importable, and gives the runs of most reports."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "figures"))
sys.path.insert(0, str(Path(__file__).parent))

from shown_runs import shown

from labkit.figures import Shown


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
