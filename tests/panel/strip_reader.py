"""What a page would know of the strip, and frames with numbers that are easy to check."""

import json
from typing import Any

import numpy as np

from labkit.panel.frame import StripFrame
from labkit.panel.strip import Flow

LANES = ("host", "compute")


def frame(*times_s: float, now_s: float | None = None, **others: Any) -> StripFrame:
    """A frame with a point at each of these times: throughput is 100 × the time, busy shares are 0.25 and 0.5."""
    points = [(t_s, 100 * t_s, 20.0, 0.25, 0.5) for t_s in times_s]
    now_s = times_s[-1] if now_s is None else now_s
    slices = np.array([[0, -0.5, -0.25, 0]], np.float32)
    asked = {
        "lanes": LANES,
        "rows": LANES,
        "names": ("train",),
        "slices": slices,
        "label": "measured on CPU threads",
        **others,
    }
    return StripFrame(
        now_s=now_s, points=np.array(points, np.float32).reshape(-1, 3 + len(asked["lanes"])), **asked
    )


class Page:
    """What a page knows after the messages that reached it; it answers only when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.messages: list[tuple[dict[str, Any], list[bytes]]] = []
        self.points = np.empty((0, 5), np.float32)
        self.slices: np.ndarray | None = None
        self.reaches = True
        self.flow = Flow(self._take, lambda: self.now_s, ahead=1)

    def _take(self, header: dict[str, Any], buffers: list[bytes]) -> None:
        self.messages.append((json.loads(json.dumps(header, allow_nan=False)), buffers))
        if not self.reaches:
            return
        points = np.frombuffer(buffers[0], "<f4").reshape(-1, 3 + len(header["lanes"]))
        self.points = (
            points if header["reset"] or not len(self.points) else np.concatenate([self.points, points])
        )
        if len(buffers) > 1:
            self.slices = np.frombuffer(buffers[1], "<f4").reshape(-1, 4)

    @property
    def times_s(self) -> list[float]:
        return self.points[:, 0].tolist()

    @property
    def header(self) -> dict[str, Any]:
        return self.messages[-1][0]

    @property
    def sizes(self) -> list[int]:
        """Bytes of each message's buffers."""
        return [sum(map(len, buffers)) for _, buffers in self.messages]

    def ack(self, n: int | None = None) -> None:
        self.flow.hear({"ack": len(self.messages) if n is None else n})
