"""The runs of most reports are those that the figures are drawn from."""

from tests.figures.conftest import a, b, predicted_b

__all__ = ["a", "b", "predicted_b"]
