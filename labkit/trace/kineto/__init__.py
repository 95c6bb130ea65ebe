"""Traces of PyTorch's profiler (Kineto), read as labkit's own: `events.py` reads the file, `imported.py` makes the trace of it."""

from labkit.trace.kineto.imported import Imported, read_kineto

__all__ = ["Imported", "read_kineto"]
