"""The live strip: a canvas that draws what moves while an experiment runs. `strip.js` draws, this file feeds it.

A frame goes in at any pace (`LiveStrip.push`); a message goes out while the page has painted all but a few of those before, and says all
that came in between. So a slow page sees fewer, larger messages, and a page that is gone gets a few and then none. What a page
draws it keeps; one that opens late, or opens again, says hello and is sent everything.
"""

from collections.abc import Callable
from dataclasses import asdict
from math import inf
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import anywidget
import numpy as np
import traitlets
from ipywidgets import Layout

from labkit.figures.colours import LANE_COLOURS
from labkit.panel.frame import StripFrame

KEPT_S, KEPT_POINTS = 120.0, 1200
"""How far back the strip remembers, here and in the page."""
AHEAD = 12
"""Messages that may be on their way, a second and a little. The page answers once a second, since every answer makes the kernel busy
for a moment and JupyterLab redraw its signs: one a picture cost more than the pictures (measured: 40 to 51 against 15 to 17 ms)."""
AGAIN_AFTER_S = 1.0
"""A page that is silent for this long is sent another message."""
UNHEARD_MOST = 30
"""A page that has left this many messages unanswered is gone or hidden: it is sent no more until it speaks."""

_HERE = Path(__file__).parent
_TIME, _OTHERS = 0, 3  # columns of the points: t_s, the two series, then one for each lane

Send = Callable[[dict[str, Any], list[bytes]], None]


class LiveStrip(anywidget.AnyWidget):
    """The strip as a widget, the same history in each of its views.

    colours  lane role → "#rrggbb", those of the figures
    """

    _esm = _HERE / "strip.js"
    _css = _HERE / "strip.css"

    colours = traitlets.Dict(default_value=dict(LANE_COLOURS)).tag(sync=True)

    def __init__(self) -> None:
        super().__init__(layout=Layout(flex="1 1 440px", width="auto", min_width="min(100%, 420px)"))
        self._flow = Flow(self.send)
        self.on_msg(self._received)

    def push(self, frame: StripFrame) -> None:
        """Show this frame next. Returns at once; safe from any thread.

        A frame of another device (`label`, `simulated`), or one whose time is before what is there, begins a new history: measured and
        simulated never share a line. Raises ValueError where the arrays are not of the shape that `StripFrame` says.
        """
        self._flow.push(frame)

    def clear(self) -> None:
        """Forget everything, here and in the page."""
        self._flow.clear()

    def _received(self, _widget: object, content: object, _buffers: object) -> None:
        self._flow.hear(content)


class Flow:
    """What the page has been told, what it has not, and when it may be told.

    send   takes the header and the buffers of one message
    clock  seconds, never going back
    ahead  messages that may be on their way unanswered
    """

    def __init__(self, send: Send, clock: Callable[[], float] = monotonic, ahead: int = AHEAD):
        self._send, self._clock, self._ahead = send, clock, ahead
        self._lock = Lock()
        self._points = Points()
        self._frame, self._slices = _NOTHING, _NOTHING.slices
        self._sent = self._heard = 0
        self._sent_at_s = -inf
        self._news = self._new_slices = False
        self._whole = True

    def push(self, frame: StripFrame) -> None:
        """Take in a frame, and send what is new if the page is ready for it."""
        points, slices = _checked(frame)
        with self._lock:
            if self._begins_anew(frame, points):
                self._forget()
            self._points.append(points, frame.lanes, frame.now_s)
            self._frame, self._slices = frame, slices
            self._news = self._new_slices = True
            self._send_if_ready()

    def clear(self) -> None:
        """Forget everything; the page is told when it is ready."""
        with self._lock:
            self._forget()
            self._send_if_ready()

    def hear(self, content: object) -> None:
        """What the page says: `{"ack": n}` when it has painted message n, `{"hello": true}` when it needs everything."""
        if not isinstance(content, dict):
            return
        with self._lock:
            if content.get("hello"):
                self._heard, self._whole, self._news = self._sent, True, True
            elif isinstance(content.get("ack"), int):
                self._heard = max(self._heard, min(content["ack"], self._sent))
            self._send_if_ready()

    # ---- inside, all under the lock -----------------------------------------------------------------------

    def _begins_anew(self, frame: StripFrame, points: np.ndarray) -> bool:
        before = self._frame
        other = before is not _NOTHING and (frame.label, frame.simulated) != (before.label, before.simulated)
        return other or (len(points) > 0 and points[0, _TIME] < self._points.last_s)

    def _forget(self) -> None:
        self._points = Points()
        self._frame, self._slices = _NOTHING, _NOTHING.slices
        self._whole = self._news = True

    def _send_if_ready(self) -> None:
        unheard = self._sent - self._heard
        now_s = self._clock()
        again = unheard < UNHEARD_MOST and now_s - self._sent_at_s >= AGAIN_AFTER_S
        ready = unheard < self._ahead
        if not self._news or not (ready or again):
            return
        self._sent, self._sent_at_s = self._sent + 1, now_s
        header, buffers = self._message(awaited=ready)
        self._whole, self._news = False, self._new_slices
        self._send(header, buffers)

    def _message(self, awaited: bool) -> tuple[dict[str, Any], list[bytes]]:
        """Header and buffers of the next message.

        awaited  the page has painted all but a few of those before. Where it has not, the slices wait: they are most of a message, and
                 the page shows the newest only
        """
        frame = self._frame
        whole = self._whole or self._points.overflown
        header = {
            "n": self._sent,
            "reset": whole,
            "now_s": frame.now_s,
            "lanes": frame.lanes,
            "marks": [asdict(mark) for mark in frame.marks if mark.t_s >= frame.now_s - KEPT_S],
            "label": _honest(frame),
            "simulated": frame.simulated,
            "tiles": frame.tiles,
            "series": frame.series,
            "running": frame.running,
        }
        buffers = [self._points.take(whole).tobytes()]
        if whole or (awaited and self._new_slices):
            header |= {"rows": frame.rows, "names": frame.names}
            buffers.append(self._slices.tobytes())
            self._new_slices = False
        return header, buffers


class Points:
    """The points of the last two minutes, one column a lane, and how many of them have not been sent."""

    def __init__(self) -> None:
        self._lanes: tuple[str, ...] = ()
        self._rows = np.empty((0, _OTHERS), np.float32)
        self._unsent = 0

    @property
    def last_s(self) -> float:
        """Time of the newest point, minus infinity where there is none."""
        return float(self._rows[-1, _TIME]) if len(self._rows) else -inf

    @property
    def overflown(self) -> bool:
        """Whether points that were never sent have been forgotten: the page has a hole, and needs everything."""
        return self._unsent > len(self._rows)

    def append(self, points: np.ndarray, lanes: tuple[str, ...], now_s: float) -> None:
        """Add points; forget those that are too old or too many. A lane that was not there before is unknown until now."""
        rows = np.concatenate([self._of_lanes(lanes), points])
        since = max(int(np.searchsorted(rows[:, _TIME], now_s - KEPT_S)), len(rows) - KEPT_POINTS)
        self._lanes, self._rows = lanes, rows[since:]
        self._unsent += len(points)

    def take(self, whole: bool) -> np.ndarray:
        """The points that have not been sent, or all of them; from now on they count as sent."""
        rows = self._rows if whole else self._rows[len(self._rows) - self._unsent :]
        self._unsent = 0
        return rows

    def _of_lanes(self, lanes: tuple[str, ...]) -> np.ndarray:
        if lanes == self._lanes:
            return self._rows
        rows = np.full((len(self._rows), _OTHERS + len(lanes)), np.nan, np.float32)
        rows[:, :_OTHERS] = self._rows[:, :_OTHERS]
        for place, lane in enumerate(lanes):
            if lane in self._lanes:
                rows[:, _OTHERS + place] = self._rows[:, _OTHERS + self._lanes.index(lane)]
        return rows


_NOTHING = StripFrame(now_s=0.0, points=np.empty((0, _OTHERS), np.float32), running=False)
"""What a strip shows before its first frame."""


def _honest(frame: StripFrame) -> str:
    """What it ran on; of a simulation never without the word "prediction"."""
    return (
        f"{frame.label}: a prediction" if frame.simulated and "prediction" not in frame.label else frame.label
    )


def _checked(frame: StripFrame) -> tuple[np.ndarray, np.ndarray]:
    """Points and slices as they travel: float32, little-endian, in rows."""
    points, slices = (np.asarray(each, "<f4") for each in (frame.points, frame.slices))
    for name, array, columns in (("points", points, _OTHERS + len(frame.lanes)), ("slices", slices, 4)):
        if array.ndim != 2 or array.shape[1] != columns:
            raise ValueError(
                f"{name} of a strip frame are of shape {array.shape}; allowed: (any number, {columns}). Give one row each."
            )
    return points, slices
