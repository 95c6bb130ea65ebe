"""The panel: an experiment with its switches, its pulse and its figures, in one notebook cell.

    panel = labkit.Panel("pipeline", device="cpu")
    panel                                  # shows it; where nobody can click, runs to the end and shows figures
    panel.result()                         # the last run, measured now where there is none

Widgets are made when the panel is shown, and only where somebody can click. Three threads work behind it: the session's loop, which
runs; the drawer, which draws what stands still; and whichever reads the browser's messages, which only passes commands on.
"""

import atexit
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakSet

from labkit import lab
from labkit.device import available_devices, resolve_device
from labkit.errors import RunFailed
from labkit.experiments import Experiment, experiment
from labkit.monitor.alerts import Rule, rules_of
from labkit.monitor.strip import Dial
from labkit.panel import view
from labkit.panel.control_spec import control_spec
from labkit.panel.controls import Command, Controls
from labkit.panel.drawer import Drawer
from labkit.panel.frame import StripFrame
from labkit.panel.headless import CellFailed, executing, headless
from labkit.panel.machines import PRESETS, SLIDERS
from labkit.panel.outputs import Outputs
from labkit.panel.page import page, runs_of
from labkit.panel.session import Session
from labkit.panel.setting import Setting
from labkit.panel.state import Result, State
from labkit.panel.strip import LiveStrip
from labkit.panel.turns import detectable_here
from labkit.panel.turnstile import DEVICES
from labkit.result import Run
from labkit.schedule import Budget

SECONDS = 5.0

_shown_in: "dict[str, tuple[str, WeakSet[Panel]]]" = {}
"""Cell → the last request to execute it that showed a panel, and the panels that it showed."""


class Panel:
    """An experiment to turn, run, pin and compare. The last line of a notebook cell shows it.

    name           an experiment of the catalogue, or one that `labkit.workload` has made
    device         what it begins on: "auto", "cpu", "cuda", "simulated:h200", ...
    seconds, steps  how long `result()` measures, and the cell where nobody can click; 5 seconds where neither is given. A run
                   that is started by hand lasts until it is stopped
    out            the runs folder; None keeps runs in memory
    alerts         rules that every run is held against, or the JSON file that has them
    knobs          the knobs that it begins with, by name

    Raises KnobError, NoSuchDevice, MachineError, ExperimentError, AlertError.
    """

    def __init__(
        self,
        name: str | Experiment = "pipeline",
        *,
        device: str = "auto",
        seconds: float | None = None,
        steps: int | None = None,
        out: str | Path | None = "runs",
        alerts: str | Path | Iterable[Rule] | None = None,
        **knobs: Any,
    ):
        catalogued = experiment(name)
        self._setting = Setting(catalogued, catalogued.knobs.parse(knobs), resolve_device(device))
        _ = self._setting.machine  # raises where there is no machine of this name
        self._seconds = SECONDS if seconds is None and steps is None else seconds
        self._steps = steps
        Budget(steps=steps, seconds=self._seconds)  # raises for what is no budget
        self._out = None if out is None else str(out)
        self._rules = rules_of(alerts)
        self._session: Session | None = None
        self._show: _Shown | None = None
        self._run: Run | None = None
        self._errors: list[str] = []

    # ---- in code ------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """What does the work; it begins when it is first needed."""
        if self._session is None:
            self._show = _Shown(self, self._setting, self._out, self._seconds)
            self._session = self._show.session = Session(self._setting, self._show, out=self._out, rules=self._rules)
            self._at_exit = partial(_close_at_exit, self._session, os.getpid())
            atexit.register(self._at_exit)
        return self._session

    @property
    def errors(self) -> list[str]:
        """Tracebacks of what went wrong in callbacks and threads, the newest last."""
        return [*self._errors, *(self._session.errors if self._session is not None else ())]

    def result(self) -> Run:
        """The last run of the panel. Where there is none, one is measured now, and waited for.

        Raises RunFailed where there is none and this panel or another one runs something, StoreError where it cannot be saved.
        """
        session = self.session
        last = session.last_run or self._run
        if last is not None:
            return last
        with DEVICES.turn(lambda: None, lambda: True) as nobody_else:
            if session.state.busy or not nobody_else:
                who = "the panel" if session.state.busy else "another panel"
                raise RunFailed(f"{who} is running: press Stop, or wait until it has ended, and ask again")
            setting = session.state.setting
            run = lab.run(
                setting.experiment, device=setting.device, seconds=self._seconds, steps=self._steps, out=self._out,
                machine=setting.machine, pool=session.workers, alerts=self._rules, **setting.chosen,
            )  # fmt: skip
        self._run = run if run.record.status == "ok" else None
        session.adopt(run)
        return run

    def close(self) -> None:
        """End what goes on, the worker processes and the widgets. May be called again. A panel that is shown later begins anew."""
        session, self._session = self._session, None
        show, self._show = self._show, None
        if session is not None:
            session.close()
            atexit.unregister(self._at_exit)
            self._run = session.last_run or self._run
            self._setting, self._errors = session.state.setting, session.errors
        if show is not None:
            show.close()

    # ---- in a notebook ------------------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        if not headless():
            self._show_widgets()
            return
        try:
            self._show_result()
        except Exception as error:  # whatever it is, the cell must not end well
            raise CellFailed(f"{type(error).__name__}: {error}") from error

    def _show_result(self) -> None:
        try:
            run = self.result().checked()
        finally:
            self.session.workers.close()  # nobody will press Run
        result = Result(run=run, b=run.shown("B"))
        outputs = Outputs()
        for _, bundle in page(result, runs_of(result)):
            outputs.show(bundle)

    def _show_widgets(self) -> None:
        cell, request = executing()
        if cell:
            self._take_the_place(cell, request)
        session = self.session
        assert self._show is not None
        self._show.open()
        session.warm()

    def _take_the_place(self, cell: str, request: str) -> None:
        """Close what the cell showed when it was last executed, unless another cell shows it too."""
        before, panels = _shown_in.pop(cell, ("", WeakSet()))
        if request != before:
            seen = {self, *(panel for _, others in _shown_in.values() for panel in others)}
            for panel in set(panels) - seen:
                panel.close()
            panels = WeakSet()
        panels.add(self)
        _shown_in[cell] = request, panels


def _close_at_exit(session: Session, pid: int) -> None:
    """Close what is open when this process ends; a forked child that ends is not this process."""
    if os.getpid() == pid:
        session.close()


class _Shown:
    """The widgets of one panel: a listener of its session, and the one who passes commands to it."""

    def __init__(self, panel: Panel, setting: Setting, out: str | None, seconds: float | None):
        self.session: Session | None = None
        self._panel = panel  # a panel that is seen is there, whether or not a name is left for it
        self._setting, self._out, self._seconds = setting, out, seconds or SECONDS
        self._box: Any = None
        self._controls: Controls | None = None
        self._strip: LiveStrip | None = None
        self._drawer: Drawer | None = None
        self._outputs = Outputs()
        self._lock = RLock()
        self._stored: list[dict[str, str]] = []
        self._dials: Sequence[Dial] = ()

    def open(self) -> None:
        """Show the panel in the cell that is being executed; the first time, make its widgets."""
        assert self.session is not None
        if self._box is None:
            self._make()
        self.on_state(self.session.state)
        self._outputs.open(self._box)

    def _make(self) -> None:
        from ipywidgets import HBox, Layout

        spec = control_spec(self._setting.experiment, available_devices(), machine=SLIDERS, machine_presets=PRESETS)
        spec["help"] = {**spec["help"], "compare": f"{spec['help']['compare']} {detectable_here()}"}
        self._controls, self._strip = Controls(spec), LiveStrip()
        self._strip.layout.flex = "1 1 440px"
        beside = self._controls.layout
        beside.flex, beside.width, beside.max_width = "0 1 350px", "auto", "100%"
        self._controls.on_do(self._do)
        self._drawer = Drawer(self._outputs.put, self._tell, self._drawn)
        self._stored = view.stored_runs(self._out, self._setting.experiment.name, self._setting.experiment.content)
        layout = Layout(flex_flow="row wrap", align_items="flex-start", width="100%")
        self._box = HBox([self._controls, self._strip], layout=layout)

    def close(self) -> None:
        """Take the widgets away."""
        if self._drawer is not None:
            self._drawer.close()
        for widget in (self._box, self._controls, self._strip):
            if widget is not None:
                widget.layout.close()
                widget.close()
        self._outputs.close()

    # ---- what the session says ----------------------------------------------------------------------------

    def on_state(self, state: State) -> None:
        """Show the session's state in the controls: the newest one, since another thread's may have come first."""
        controls, session = self._controls, self.session
        if controls is None or session is None:
            return
        with self._lock:
            state = session.state
            controls.values = view.values(state)
            controls.status = view.status(state, self._stored, self._seconds)
            controls.alerts = view.alerts(state.alerts)
            controls.guess = view.guess(state)
            controls.monitor = view.monitor(self._dials, state.alerts)

    def on_frame(self, frame: StripFrame) -> None:
        """Move the strip."""
        if self._strip is not None:
            self._strip.push(frame)

    def on_dials(self, dials: Sequence[Dial]) -> None:
        """Move the dials of the monitor."""
        if self._controls is not None and self.session is not None and dials != self._dials:
            with self._lock:
                self._dials = dials
                self._controls.monitor = view.monitor(dials, self.session.state.alerts)

    def on_result(self, result: Result) -> None:
        """Draw what stands still, when there is time."""
        if self._drawer is not None:
            self._drawer.draw(result)

    # ---- what people do -----------------------------------------------------------------------------------

    def _do(self, command: Command) -> None:
        session = self.session
        if session is None:
            return
        try:
            _COMMANDS[command.do](session, command)
        except Exception as error:  # it is told in the panel: raised here, nobody would see it
            self._tell(error)
        finally:
            session.acknowledge(command.seq)

    def _tell(self, error: BaseException) -> None:
        if self.session is not None:
            self.session.tell(error)

    def _drawn(self, result: Result, summary: Any) -> None:
        session = self.session
        if session is None:
            return
        if result.run is None and summary is not None:
            session.check(summary)
        else:
            self._stored = view.stored_runs(self._out, self._setting.experiment.name, self._setting.experiment.content)
            self.on_state(session.state)


_COMMANDS: dict[str, Any] = {
    "turn": lambda session, command: session.turn({command.name: command.value}),
    "device": lambda session, command: session.device(command.name),
    "machine": lambda session, command: session.machine(command.name, command.value),
    "preset": lambda session, command: session.preset(command.name),
    "machine_preset": lambda session, command: session.machine_preset(command.name),
    "run": lambda session, command: session.run(),
    "stop": lambda session, command: session.stop(),
    "pin": lambda session, command: session.pin(),
    "pin_stored": lambda session, command: session.pin_stored(command.name),
    "unpin": lambda session, command: session.unpin(),
    "compare": lambda session, command: session.compare(),
    "reset": lambda session, command: session.reset(),
    "run_for": lambda session, command: session.run_for(command.value),
    "view": lambda session, command: session.view(command.name, command.value),
    "guess": lambda session, command: session.guess(command.value, command.bottleneck),
    "clear_guess": lambda session, command: session.clear_guess(),
}
