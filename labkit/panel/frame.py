"""What the live strip is told ten times a second: numbers only, in float32, and few of them."""

from dataclasses import dataclass, field

import numpy as np

STEPS = ("throughput, items/s", "step interval, ms")
REQUESTS = ("answers, requests/s", "slowest answer in the last second, ms")


@dataclass(frozen=True)
class StripMark:
    """A toggle, or a restart, on the strip.

    t_s     seconds since the strip began
    words   "prefetch 0 → 4"
    change  what throughput has done since: "+31 % (+27 to +35)"; "…" while there are too few steps to say
    """

    t_s: float
    words: str
    change: str = ""


@dataclass(frozen=True, eq=False)
class StripFrame:
    """What came since the frame before, and the state that replaces the one before.

    now_s      seconds since the strip began
    points     float32 [k, 3 + L]: t_s, the two series, busy share of each lane; NaN where unknown
    series     what the two series are, with their units
    lanes      the L lanes of the points
    rows       rows of the timeline: "host", "workers 0", "compute"
    slices     float32 [m, 4]: the last second of the timeline, complete: row number, start and end in seconds before
               `now_s` (-1 to 0), number of the op's name
    names      names of the ops
    marks      the toggles of the time that the strip shows, complete
    label      what it runs on: "measured on CPU threads", "simulated H200"
    simulated  whether the numbers are predictions
    tiles      big numbers: ("throughput", "752 items/s")
    running    False for the last frame of a run
    """

    now_s: float
    points: np.ndarray
    lanes: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    slices: np.ndarray = field(default_factory=lambda: np.empty((0, 4), np.float32))
    names: tuple[str, ...] = ()
    marks: tuple[StripMark, ...] = ()
    label: str = ""
    simulated: bool = False
    tiles: tuple[tuple[str, str], ...] = ()
    series: tuple[str, str] = STEPS
    running: bool = True
