"""What a task asks of the hardware: FLOP, bytes, memory and parallelism of every operator, and where that puts it on a machine's roofline."""

from labkit.profile.roofline import Placed, place
from labkit.profile.task import OpProfile, TaskProfile, profile

__all__ = ["OpProfile", "Placed", "TaskProfile", "place", "profile"]
