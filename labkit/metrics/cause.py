"""Why a unit of a lane was idle: a small frozen thing, and its words."""

from typing import Literal, NamedTuple

from labkit.metrics.unit_slices import HOST

Kind = Literal["dependency", "host", "deadline", "dispatch", "start", "end"]


class Cause(NamedTuple):
    """Why a unit was idle.

    kind    dependency: an op it needed had not ended; host: nothing had been submitted; deadline: the host
            waited for a set time; dispatch: from ready to running; start, end: before the first op, after the
            last one
    op      dependency: the last one to end; host: what the host was doing: the op it waited for or ran
            inline, "launching", or "host program"; deadline: what it waited for, where that has a name of its own
    lane    where `op` ran
    behind  dependency: the op that ran for the longest part of the gap, up the chain that led to `op`; often
            `op` itself
    behind_lane  where `behind` ran
    """

    kind: Kind
    op: str = ""
    lane: str = ""
    behind: str = ""
    behind_lane: str = ""

    @property
    def text(self) -> str:
        """The cause in words, naming the lane that was waited for."""
        if self.kind == "dependency" and self.behind_lane:
            return f"waiting for {self.behind_lane}: {self.behind}"
        if self.kind == "dependency":
            return f"waiting for {self.behind}"
        if self.kind == "host" and self.lane != HOST:
            return f"waiting for host, itself waiting for {self.op}"
        if self.kind == "host":
            return f"waiting for host: {self.op}"
        if self.kind == "deadline" and self.op:
            return f"waiting for {self.op}"
        return _WORDS[self.kind]


_WORDS = {
    "deadline": "waiting for a set time",
    "dispatch": "dispatch",
    "start": "before the first op",
    "end": "after the last op",
}
START, END, DISPATCH = Cause("start"), Cause("end"), Cause("dispatch")
