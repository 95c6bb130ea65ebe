"""Knobs: what may be turned. One declaration gives the CLI flags, the notebook's parameters cell, the sweep
grid, the widgets and the run record."""

from labkit.knobs.knobs import Knobs, knob

__all__ = ["Knobs", "knob"]
