"""The loop: one thread that does what was asked for, one thing at a time, and always comes back to rest.

Whatever a task raises is told and forgotten; a Stop that does not help within seconds becomes a cancel, and then the end of the worker
process. So the panel can be used again, whatever happens.
"""

import threading
import traceback
from collections.abc import Callable, Mapping

from labkit.panel.state import Phase
from labkit.panel.turnstile import DEVICES
from labkit.runner.workers import Workers

STOP_GRACE_S = 15.0
KILL_GRACE_S = 15.0
CLOSE_GRACE_S = 5.0


class Loop:
    """Does tasks by name, in the order of their asking; while one is done, no other is taken.

    tasks     name → what to do; it looks at `stopping` and returns soon after that is set
    on_phase  told (phase, words): "starting", "waiting", "stopping", "idle"
    on_error  told what a task raised
    """

    def __init__(
        self,
        tasks: Mapping[str, Callable[[], None]],
        workers: Workers,
        on_phase: Callable[[Phase, str], None],
        on_error: Callable[[BaseException], None],
    ):
        self.stopping = False
        self._tasks, self._workers = tasks, workers
        self._on_phase, self._on_error = on_phase, on_error
        self._task = ""
        self._closed = False
        self._timers: list[threading.Timer] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="labkit-panel", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether something is done, or about to be."""
        return bool(self._task)

    def ask(self, task: str) -> bool:
        """Do this as soon as possible. False where something else is being done."""
        with self._changed:
            if self._task or self._closed:
                return False
            self._task, self.stopping = task, False
            self._changed.notify_all()
            self._on_phase("starting", "starting")
        return True

    def stop(self) -> None:
        """End what is being done, in good order; asked again, at once."""
        with self._changed:
            if not self._task:
                return
            again, self.stopping = self.stopping, True
            self._changed.notify_all()
            if not again:  # while it cannot come to rest, or they would be meant for what is asked next
                self._later(STOP_GRACE_S, self._workers.cancel)
                self._later(STOP_GRACE_S + KILL_GRACE_S, self._workers.kill)
            self._on_phase("stopping", "killing the worker" if again else "stopping after this step")
        DEVICES.nudge()
        if again:
            self._workers.kill()
        else:
            self._workers.stop()

    def rest(self, seconds: float) -> None:
        """Wait this long in a task, or until it is to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopping, seconds)

    def close(self) -> None:
        """End what is being done, and the loop. May be called again."""
        with self._changed:
            self._closed = self.stopping = True
            self._changed.notify_all()
        DEVICES.nudge()
        self._workers.cancel()
        self._thread.join(CLOSE_GRACE_S)
        if self._thread.is_alive():
            self._workers.kill()
            self._thread.join(CLOSE_GRACE_S)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._task or self._closed)
                if self._closed:
                    return
                task = self._task
            try:
                with DEVICES.turn(self._say_waiting, lambda: self.stopping) as mine:
                    if mine:
                        self._tasks[task]()
            except Exception as error:  # whatever it is, it is told, and the panel can be used again
                self._tell(error)
            finally:
                self._come_to_rest()

    def _tell(self, error: BaseException) -> None:
        try:
            self._on_error(error)
        except Exception:  # whoever shows it is what is broken; this thread must go on, or nothing would ever run again
            traceback.print_exc()

    def _come_to_rest(self) -> None:
        with self._changed:
            for timer in self._timers:
                timer.cancel()
            self._timers, self._task = [], ""
            try:
                self._on_phase("idle", "ready")
            except Exception as error:  # as above
                self._tell(error)

    def _say_waiting(self) -> None:
        self._on_phase("waiting", "waits its turn: another panel is running")
