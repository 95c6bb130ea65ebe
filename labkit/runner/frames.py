"""Frames: what a worker says of a run while it goes on, ten times a second, in a thread beside the run.

The thread shares the interpreter with the program that is measured, so it does next to nothing: it takes the rows that were
recorded since the last frame as they are. Whatever is reckoned from them is reckoned by whoever receives the frame.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from time import thread_time
from typing import Any

from labkit.monitor import Sampler
from labkit.runner.execute import Controls
from labkit.runner.job import Frame, Live
from labkit.trace.mirror import Parts

FRAME_PERIOD_S = 0.1


class FrameSender:
    """Sends frames of one run.

    sampler  the sensors of a live run, whose frames then carry what was recorded; None for frames of progress alone
    """

    def __init__(self, controls: Controls, sampler: Sampler | None, send: Callable[[tuple[Any, ...]], None]):
        self._controls = controls
        self._sampler = sampler
        self._send = send
        self._parts: Parts | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="labkit-frames", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send what is left, and end."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(FRAME_PERIOD_S):
            self._send_one()
        self._send_one()

    def _send_one(self) -> None:
        frame = self._controls.frame()
        if frame is None:
            return
        live = self._live(frame)
        self._send(("frame", frame if live is None else replace(frame, live=live)))

    def _live(self, frame: Frame) -> Live | None:
        device = self._controls.device
        if self._sampler is None or device is None:
            return None
        if self._parts is None:
            self._parts = Parts(device.recorder)
        return Live(self._parts.take(device.now()), self._sampler.latest(), thread_time())
