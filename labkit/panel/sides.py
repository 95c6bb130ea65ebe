"""A and B, and the guess: what a session keeps of runs, and shows. The part of a session that starts nothing."""

import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit import lab
from labkit.errors import ExperimentError, LabkitError, StoreError
from labkit.figures.guess import Guess
from labkit.figures.shown import Shown
from labkit.panel.control_spec import VIEWS
from labkit.panel.foresee import foreseen, found
from labkit.panel.setting import Pinned, Setting, setting_of
from labkit.panel.state import Listener, Result, State, message_of
from labkit.panel.watch import Watch
from labkit.result import Run
from labkit.runner.workers import Workers

ERRORS_KEPT = 20


class Sides:
    """What was pinned, seen and guessed.

    setting  what the session begins with
    run_for  seconds that a run lasts; None: until it is stopped
    out      the runs folder; None keeps runs in memory
    """

    def __init__(self, setting: Setting, listener: Listener, run_for: float | None, out: str | Path | None):
        self.workers = Workers()
        self.errors: list[str] = []
        self.last_run: Run | None = None
        self._first = setting
        self._listener = listener
        self._out = out
        self._state = State(setting, run_for=run_for)
        self._lock = threading.RLock()
        self._watch: Watch | None = None
        self._last_result = Result()
        self._last_seen: Pinned | None = None

    @property
    def state(self) -> State:
        """What it says of itself now."""
        return self._state

    def pin(self) -> None:
        """Keep what is seen now as A: the running part, the last run, or the setting alone."""
        watch, setting, seen = self._watch, self._state.setting, self._last_seen
        if watch is not None:
            pinned = Pinned(watch.setting, watch.part().shown("A"))
        elif seen is not None and seen.setting == setting and seen.shown is not None:
            pinned = replace(seen, shown=replace(seen.shown, label="A"))
        else:
            pinned = Pinned(setting)
        self._set(a=pinned, message=None)
        self._show(replace(self._last_result, a=pinned.shown, compared=None, measured=None))

    def pin_stored(self, run_id: str) -> None:
        """Take a run of the runs folder as A. Raises StoreError, KnobError, MachineError, RunFailed."""
        stored = lab.stored_run(run_id, self._out or "runs")
        pinned = Pinned(setting_of(stored.record, self._first.experiment), stored.shown("A"), stored)
        self._set(a=pinned, message=None)
        self._show(replace(self._last_result, a=pinned.shown, compared=None, measured=None))

    def unpin(self) -> None:
        """Forget A."""
        self._set(a=None)
        self._show(replace(self._last_result, a=None, compared=None, measured=None, predicted=None))

    def guess(self, ratio: float | None, bottleneck: str | None) -> None:
        """Commit a guess: B runs at `ratio` times the throughput of A, and is held back by `bottleneck`."""
        self._set(guess=Guess(ratio, bottleneck))

    def clear_guess(self) -> None:
        """Take the guess back."""
        self._set(guess=None)

    def view(self, name: str, on: bool) -> None:
        """Show something besides, or no longer. Raises ExperimentError for what is not there."""
        if name not in VIEWS:
            raise ExperimentError(f"there is no view {name!r}; there are: {', '.join(VIEWS)}")
        wanted = {*self._state.views, name} if on else {*self._state.views} - {name}
        self._set(views=tuple(each for each in VIEWS if each in wanted))
        if self._last_result.run is not None:
            self._show(self._last_result)

    def adopt(self, run: Run) -> None:
        """A run that was made beside the session, with its setting, becomes its last one."""
        if run.record.status == "ok":
            shown = run.shown("B")
            self.last_run, self._last_seen = run, Pinned(self._state.setting, shown, run)
            self._show(Result(a=self._a_shown, run=run, b=shown, first_step=run.record.warmup))

    def tell(self, error: BaseException) -> None:
        """Show an error in the panel, and keep its traceback."""
        if not isinstance(error, LabkitError):
            self.errors = [*self.errors, "".join(traceback.format_exception(error))][-ERRORS_KEPT:]
        self._set(message=message_of(error))

    # ---- inside -------------------------------------------------------------------------------------------

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)
            self._listener.on_state(self._state)

    def _saved(self, run: Run) -> Run:
        """The run, saved. Where that fails, it is told, and the run stays in memory."""
        try:
            return lab.saved(run, self._out)
        except StoreError as error:
            self.tell(error)
            return run

    @property
    def _a_shown(self) -> Shown | None:
        return self._state.a.shown if self._state.a is not None else None

    def _answered(self, result: Result, b: Setting, a: Pinned | None = None) -> Result:
        """With the answers to a guess about these settings, where one was made."""
        guess = self._state.guess
        if guess is None:
            return result
        predicted = foreseen(a or self._state.a, b, self.workers)
        return replace(result, guess=guess, predicted=predicted, measured=found(result.compared, result.a, result.b))

    def _show(self, result: Result) -> None:
        self._last_result = replace(result, views=self._state.views)
        self._listener.on_result(self._last_result)
