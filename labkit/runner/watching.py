"""Watching what goes on around a run, from the process that asked for it: the worker that is measured does nothing for it."""

from collections.abc import Callable
from dataclasses import replace

from labkit.monitor import Surroundings
from labkit.runner.job import Frame, Job, Outcome

OnFrame = Callable[[Frame], None]


class Watching:
    """Beside one run: `on_frame` goes to the worker instead of the caller's own, `added_to` puts what was seen into the outcome.

    The counting begins anew with the first frame after the warm-up. Of a simulated run nothing is watched.
    """

    def __init__(self, job: Job, tell: OnFrame | None):
        self._surroundings = None if job.simulated else Surroundings()
        self._tell = tell
        self._measuring = False

    def on_frame(self, frame: Frame) -> None:
        """Look around, if it is time to, and tell the caller."""
        if self._surroundings is not None:
            if frame.measured_ns > 0 and not self._measuring:
                self._measuring = True
                self._surroundings.begin()
            self._surroundings.look()
        if self._tell is not None:
            self._tell(frame)

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome with what was seen among its sensors' summaries; as it is where it left no trace to judge."""
        if self._surroundings is None or outcome.trace is None:
            return outcome
        return replace(outcome, monitor={**outcome.monitor, **self._surroundings.summary()})
