"""A session: what a panel does, without any widget. It takes commands from any thread; its loop does the work in another.

Commands change what is *wanted* and return at once. A live knob goes straight to the running job; a cold one, another device or machine
stops it, and it is started anew once nothing has been turned for a moment: of a dragged slider the last value wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from labkit import lab
from labkit.errors import ExperimentError
from labkit.metrics.circumstances import Circumstances
from labkit.metrics.summary import Summary
from labkit.metrics.verdict import judge
from labkit.monitor import Reading
from labkit.monitor.alerts import Rule, evaluate
from labkit.monitor.strip import Dial, strip
from labkit.panel.frame import StripFrame
from labkit.panel.loop import Loop
from labkit.panel.machines import preset_of
from labkit.panel.setting import Pinned, Setting, comparable
from labkit.panel.sides import Sides
from labkit.panel.state import Listener, Message, Phase, Result, message_of_failure
from labkit.panel.turns import measure_turns, round_seconds
from labkit.panel.watch import Watch, watching_dial
from labkit.result import Run
from labkit.runner.alerting import alerts_of, values_now
from labkit.runner.job import Frame
from labkit.schedule import Budget

QUIET_S = 0.3
"""A restart waits until nothing cold has been turned for this long."""
UNTIL_STOPPED_S = 86_400.0


class Session(Sides):
    """One experiment that is turned, run, pinned and compared.

    setting  what it begins with, and what `reset` goes back to
    out      the runs folder; None keeps runs in memory
    rules    alert rules that every run is held against
    """

    def __init__(
        self, setting: Setting, listener: Listener, *, run_for: float | None = None, out: str | Path | None = "runs",
        rules: Sequence[Rule] = (),
    ):  # fmt: skip
        super().__init__(setting, listener, run_for, out)
        self._rules = tuple(rules)
        self._restart = ""
        self._then_compare = False
        self._cold_turned_s = 0.0
        self._monitor: Mapping[str, Reading] = {}
        self._last_dials: Sequence[Dial] = ()
        self._began_s = monotonic()
        tasks = {"run": self._run, "compare": self._compare}
        self._loop = Loop(tasks, self.workers, self._on_phase, self.tell)

    # ---- commands, from any thread ------------------------------------------------------------------------

    def acknowledge(self, seq: int) -> None:
        """A command of this number has been taken up."""
        self._set(seq=max(seq, self._state.seq))

    def turn(self, values: Mapping[str, Any]) -> None:
        """Turn some knobs. Raises KnobError and leaves them as they were."""
        self._want(self._state.setting.turned(values))

    def preset(self, name: str) -> None:
        """Take the values of a named setting; other knobs go to their defaults, but cold ones that no preset names stay."""
        experiment = self._first.experiment
        if name not in experiment.presets:
            raise ExperimentError(f"there is no preset {name!r}; there are: {', '.join(experiment.presets)}")
        named = {knob for values in experiment.presets.values() for knob in values}
        kept = {knob: value for knob, value in self._state.setting.knobs.cold().items() if knob not in named}
        knobs = experiment.knobs.parse({**kept, **experiment.presets[name]})
        self._want(replace(self._state.setting, knobs=knobs))

    def device(self, name: str) -> None:
        """Run on another device. Raises NoSuchDevice, MachineError."""
        self._want(self._state.setting.on(name))

    def machine(self, figure: str, value: float) -> None:
        """Change a figure of the simulated machine. Raises MachineError, ExperimentError."""
        self._want(self._state.setting.with_figures({figure: value}))

    def machine_preset(self, name: str) -> None:
        """Change figures of the simulated machine that go together. Raises MachineError, ExperimentError."""
        self._want(self._state.setting.with_figures(preset_of(name).changes))

    def run_for(self, seconds: float | None) -> None:
        """How long the next run lasts; None: until it is stopped."""
        Budget(seconds=UNTIL_STOPPED_S if seconds is None else seconds)  # raises for a number that is not allowed
        self._set(run_for=seconds)

    def run(self) -> None:
        """Run the experiment; nothing happens where it runs already."""
        self._ask("run")

    def compare(self) -> None:
        """Measure A and B in turns; what is running is stopped first. Raises ExperimentError where that would say nothing."""
        if self._state.a is None:
            raise ExperimentError("nothing is pinned as A: pin a run first, then turn something, then measure A and B")
        comparable(self._state.a.setting, self._state.setting)
        if self._state.phase == "running":
            self._then_compare = True
            self.stop()
        else:
            self._ask("compare")

    def stop(self) -> None:
        """End what is going on; asked again, kill the worker."""
        self._loop.stop()

    def reset(self) -> None:
        """Every knob, the device and the machine as they were at the start; A and the guess are forgotten."""
        self._want(self._first)
        self._set(a=None, guess=None, message=None)

    def warm(self) -> None:
        """Start the worker process, so that the first Run finds it there."""
        if not self._loop.busy:
            self.workers.warm(self._state.setting.job(Budget(steps=1)))

    def close(self) -> None:
        """End whatever goes on, and the worker processes. May be called again."""
        self._loop.close()
        self.workers.close()

    def check(self, summary: Summary) -> None:
        """Hold what is seen of a run while it goes on against the alert rules."""
        if self._rules:
            self._set(alerts=evaluate(self._rules, values_now(summary, self._monitor)))

    # ---- what is wanted -----------------------------------------------------------------------------------

    def _want(self, setting: Setting) -> None:
        with self._lock:
            self._set(setting=setting, message=None)
            watch = self._watch
            if watch is None:
                return
            why = watch.setting.why_restart(setting)
            if why:
                self._restart, self._cold_turned_s = why, monotonic()
                self._set(words=f"{why}: the run is started anew")
                self.workers.stop()
            elif not self._restart:
                self.workers.turn(setting.knobs)

    def _ask(self, task: str) -> None:
        self._set(message=None)
        self._loop.ask(task)

    def _on_phase(self, phase: Phase, words: str) -> None:
        if phase == "idle":
            with self._lock:
                self._watch, self._restart = None, ""
            self._set(phase=phase, words=words, share=None)
            if self._then_compare:
                self._then_compare = False
                self._loop.ask("compare")
        else:
            self._set(phase=phase, words=words)

    # ---- in the loop's thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        lab.writable(self._out)
        while not self._loop.stopping:
            while (left_s := self._cold_turned_s + QUIET_S - monotonic()) > 0 and not self._loop.stopping:
                self._loop.rest(left_s)
            self._restart = ""
            self._run_once(self._state.setting)
            if not self._restart:
                return

    def _run_once(self, setting: Setting) -> None:
        seconds = self._state.run_for
        job = setting.job(Budget(seconds=UNTIL_STOPPED_S if seconds is None else seconds), live=True)
        watch = self._watch = Watch(job, setting, lambda: monotonic() - self._began_s)
        self._set(phase="starting", words=f"starting on {setting.label}")
        started = datetime.now().astimezone()
        drawn: list[StripFrame] = []
        outcome = self.workers.run(job, partial(self._on_frame, watch, drawn))
        last = watch.last_frame(drawn[-1] if drawn else None)
        if last is not None:
            self._move(last, self._last_dials)
        notes = lab.inert_notes(setting.chosen, job)
        run = lab.ended_run(job, outcome, started, None, notes, self._rules)
        self._take_in(self._saved(run) if watch.counted or outcome.status == "failed" else run, watch)

    def _on_frame(self, watch: Watch, drawn: list[StripFrame], frame: Frame) -> None:
        if self._loop.stopping or self._restart:
            self.workers.stop()  # it may have been asked before there was a job to stop
        elif not drawn:
            self._set(phase="running", words=f"running on {watch.setting.label}")
            self._want(self._state.setting)  # what was turned while it was starting
        strip_frame = watch.take(frame)
        if strip_frame is None or frame.live is None:
            return
        drawn[:] = [strip_frame]
        self._monitor = frame.live.monitor
        self._last_dials = (*strip(self._monitor, watch.setting.device), watching_dial(frame.live))
        self._move(strip_frame, self._last_dials)
        if (part := watch.settled()) is not None:
            self._show(Result(a=self._a_shown, part=part))

    def _move(self, frame: StripFrame, dials: Sequence[Dial]) -> None:
        try:
            self._listener.on_frame(frame)
            self._listener.on_dials(dials)
        except Exception as error:  # what cannot be shown must not end what is measured
            self.tell(error)

    def _take_in(self, run: Run, watch: Watch) -> None:
        """A run has ended: keep it, tell its alerts, show what came of it."""
        self._set(alerts=alerts_of(run.record))
        record, part = run.record, watch.part()
        if record.status == "failed":
            self._set(message=message_of_failure(record))
        elif run.trace is not None:
            part = replace(part, mirror=None, trace=run.trace)
        shown = part.shown("B")
        if shown is None:
            if not self._restart and record.status != "failed":
                nothing = "it ended before there was anything to show of the steps since the last toggle"
                self._set(message=Message("info", record.reason or nothing))
            return
        verdict = record.verdict  # failed, cancelled or killed: what was seen of it is shown, and is no result
        if run.trace is not None and record.status == "ok":
            around = Circumstances.of_monitor(record.monitor)
            verdict = judge(shown.summary, shown.trace, measured=shown.measured, warmup_steps=watch.first_step, circumstances=around)
        shown = replace(shown, grade=verdict.grade)
        if run.trace is not None and record.status == "ok":
            self.last_run = run
            self._last_seen = Pinned(part.setting, shown, None if watch.toggled else run)
        result = Result(a=self._a_shown, run=run, b=shown, verdict=verdict, first_step=watch.first_step)
        self._show(self._answered(result, part.setting))

    def _compare(self) -> None:
        a, setting = self._state.a, self._state.setting
        if a is None:
            return
        lab.writable(self._out)
        self._set(phase="comparing", words="measuring A and B in turns", share=0.0)

        def on_progress(words: str, share: float) -> None:
            self._set(words=words, share=share)

        seen = [side.shown for side in (a, self._last_seen) if side is not None and side.shown is not None]
        compared = measure_turns(
            a.setting, setting, self.workers, on_progress, lambda: self._loop.stopping, round_seconds(seen)
        )
        broken = next((run.record for run in (compared.a, compared.b) if run.record.status == "failed"), None)
        if broken is not None or self._loop.stopping:
            words = Message("info", "stopped before A and B had been compared")
            self._set(message=message_of_failure(broken) if broken is not None else words)
            return
        compared = replace(compared, a=self._saved(compared.a), b=self._saved(compared.b))
        sides = compared.a.shown("A"), compared.b.shown("B")
        self.last_run, self._last_seen = compared.b, Pinned(setting, sides[1], compared.b)
        if self._state.a is a:  # not where it was reset or pinned anew meanwhile
            self._set(a=Pinned(a.setting, sides[0], compared.a))
        self._set(message=Message("info", compared.comparison.sentence))
        verdict = compared.b.record.verdict
        first = compared.b.record.warmup
        result = Result(sides[0], run=compared.b, b=sides[1], compared=compared, verdict=verdict, first_step=first)
        self._show(self._answered(result, setting, a))
