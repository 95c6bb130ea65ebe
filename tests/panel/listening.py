"""A session with a listener that keeps what it is told, small knobs, and waits that cannot hang."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from labkit.device import resolve_device
from labkit.experiments import experiment
from labkit.monitor.alerts import Rule
from labkit.panel.frame import StripFrame
from labkit.panel.session import Session
from labkit.panel.setting import Setting
from labkit.panel.state import Result, State

SMALL = {"image_size": 32, "batch_size": 4}
HANG_S = 90.0


class Listening:
    """A session's listener."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.frames: list[StripFrame] = []
        self.results: list[Result] = []
        self.dials: list[Any] = []
        self._changed = threading.Condition()

    def on_state(self, state: State) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def on_frame(self, frame: StripFrame) -> None:
        with self._changed:
            self.frames.append(frame)
            self._changed.notify_all()

    def on_dials(self, dials: Sequence[Any]) -> None:
        self.dials.append(dials)

    def on_result(self, result: Result) -> None:
        with self._changed:
            self.results.append(result)
            self._changed.notify_all()

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until something is so; fails rather than hangs."""
        deadline = monotonic() + HANG_S
        with self._changed:
            while not (found := condition()):
                assert self._changed.wait(max(deadline - monotonic(), 0.001)) or monotonic() < deadline, "it never came"
        return found

    @property
    def phases(self) -> list[str]:
        """The phases that it went through, repeats left out."""
        phases = [state.phase for state in self.states]
        return [phase for at, phase in enumerate(phases) if at == 0 or phases[at - 1] != phase]


class Heard:
    """A session and its listener."""

    def __init__(self, device: str = "simulated:t4", out: Path | None = None, rules: Sequence[Rule] = (), **knobs: Any):
        pipeline = experiment("pipeline")
        self.listener = Listening()
        setting = Setting(pipeline, pipeline.knobs.parse({**SMALL, **knobs}), resolve_device(device))
        self.session = Session(setting, self.listener, out=out, rules=rules)

    def idle(self) -> State:
        """Wait until it rests."""
        self.listener.until(lambda: not self.session.state.busy)
        return self.session.state

    def running(self, frames: int = 3) -> None:
        """Wait until this many more frames have come that have a throughput."""
        seen = len(self.listener.frames)

        def moved() -> bool:
            return sum(len(frame.points) and frame.points[0][1] > 0 for frame in self.listener.frames[seen:]) >= frames

        self.listener.until(lambda: moved() or not self.session.state.busy)
        assert self.session.state.busy, self.session.state.message

    def ran(self, seconds: float) -> Result:
        """Run for so long, and the result."""
        self.session.run_for(seconds)
        self.session.run()
        self.idle()
        return self.listener.results[-1]


Make = Callable[..., Heard]


def worker_pid(heard: Heard) -> int:
    """The process id of its warm worker."""
    return next(iter(heard.session.workers._by_process.values())).pid
