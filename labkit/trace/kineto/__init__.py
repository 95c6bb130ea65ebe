"""Traces of PyTorch's profiler (Kineto), read as labkit's own: `events.py` reads the file, `launches.py` makes the host's program of it."""

from labkit.trace.kineto.imported import Imported, read_kineto

__all__ = ["Imported", "read_kineto"]
