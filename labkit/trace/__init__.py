"""What did happen: the columns a run leaves, how they are recorded, saved and exported."""

from labkit.trace.recorder import Recorder
from labkit.trace.trace import KIND_LAUNCH, KIND_OP, KIND_WAIT, Mark, Trace, UnitSpan

__all__ = ["KIND_LAUNCH", "KIND_OP", "KIND_WAIT", "Mark", "Recorder", "Trace", "UnitSpan"]
