"""What if, with sliders: a run's stages made faster, its lanes wider, its host free; and a knob turned, predicted and then measured.

    labkit.WhatIf(run)                          # sliders, in a notebook
    labkit.WhatIf(run).set(scale={"copy": 0.5})  # the answer, anywhere

What stands below the sliders are plain outputs: they stay in the saved notebook. Nothing runs between two changes.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

import ipywidgets

from labkit import figures
from labkit.errors import LabkitError
from labkit.figures import Rate
from labkit.lab import stored_run
from labkit.metrics.whatif import Change
from labkit.panel.outputs import Outputs
from labkit.panel.page import figure_bundle
from labkit.result import Run
from labkit.units import format_percent
from labkit.whatif import Answer, by_knobs, by_replay, measured, replays_of

STAGES_SHOWN = 8
WIDEST = 16
SPEEDS: tuple[tuple[str, float], ...] = (
    ("¼×", 4.0), ("½×", 2.0), ("¾×", 4 / 3), ("as it was", 1.0), ("1¼×", 0.8), ("1½×", 2 / 3), ("2×", 0.5), ("3×", 1 / 3), ("4×", 0.25),
    ("8×", 0.125), ("no time", 0.0),
)  # fmt: skip
"""How fast a stage is, and the factor on its time."""

_LABEL_PX, _SLIDER_PX = 220, 400
_SLOTS = ("words", "one axis", "speedups")


class WhatIf:
    """One run that can be asked.

    run  a run of the lab, or the name of a stored one. Raises RunFailed where it left no trace, TraceError where that cannot be replayed.
    """

    def __init__(self, run: Run | str):
        self.run = stored_run(run).checked() if isinstance(run, str) else run.checked()
        self._replays = replays_of(self.run)
        self._speedups = self._replays.virtual_speedups()
        self._widths = self._replays.widths()
        self.answer: Answer = by_replay(self.run, Change(), self._replays)
        self._outputs = Outputs(_SLOTS, "sliders: run this cell to have them here")
        self._speeds: dict[str, ipywidgets.SelectionSlider] = {}
        self._wide: dict[str, ipywidgets.IntSlider] = {}
        self._listening = True
        self._build()

    # ---- by hand ------------------------------------------------------------------------------------------

    def set(self, scale: Mapping[str, float] | None = None, widths: Mapping[str, int] | None = None, host: float = 1.0) -> Answer:
        """The answer for a change: factors on the time of ops and lanes, units of lanes, a factor on the host's own time.

        Raises TraceError for a name that is not in the trace, a negative factor, a width below 1.
        """
        self._show(by_replay(self.run, Change(dict(scale or {}), dict(widths or {}), host), self._replays))
        return self.answer

    def knobs(self, **changed: Any) -> Answer:
        """The answer for other knobs, from the simulated device. Raises ExperimentError for a run without knobs, KnobError, RunFailed."""
        self._show(by_knobs(self.run, changed))
        return self.answer

    def measure(self, **changed: Any) -> Answer:
        """The same, and then measured: the run's setting and the changed one in turns. Raises as `knobs`."""
        self._show(measured(self.run, changed, by_knobs(self.run, changed)))
        return self.answer

    def reset(self) -> None:
        """Everything as it was."""
        self._listening = False
        for slider in self._speeds.values():
            slider.value = 1.0
        for lane, slider in self._wide.items():
            slider.value = self._widths[lane]
        self._listening = True
        self.set()

    def __repr__(self) -> str:
        return "\n".join(lines(self.answer))

    # ---- on a page ----------------------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        self._outputs.open(self._box)
        self._show(self.answer)
        self._outputs.put("speedups", figure_bundle(figures.speedups(self._speedups, self.run.shown("the run"), self._replays.error)))

    def _build(self) -> None:
        rows = [_title("How fast each stage is")]
        for stage in self._speedups[:STAGES_SHOWN]:
            label = f"all of {stage.name}" if stage.sort == "lane" else stage.name
            slider = ipywidgets.SelectionSlider(options=SPEEDS, value=1.0, continuous_update=False, layout=_wide(_SLIDER_PX))
            slider.observe(self._turned, "value")
            self._speeds[stage.name] = slider
            rows.append(_row(label, slider))
        rows.append(_title("How many units a lane has"))
        for lane, units in self._widths.items():
            slider = ipywidgets.IntSlider(units, 1, max(WIDEST, units), continuous_update=False, layout=_wide(_SLIDER_PX))
            slider.observe(self._turned, "value")
            self._wide[lane] = slider
            rows.append(_row(lane, slider))
        back = ipywidgets.Button(description="As it was", tooltip="Every slider back to where it was")
        back.on_click(lambda _: self.reset())
        rows += [_row("", back), *self._knob_rows()]
        self._message = ipywidgets.HTML()
        self._box = ipywidgets.VBox([*rows, self._message])

    def _knob_rows(self) -> list[ipywidgets.Widget]:
        record = self.run.record
        if record.experiment == "imported" or not record.measured:
            return []
        self._knob = ipywidgets.Dropdown(options=list(record.knobs), layout=_wide(160))
        self._value = ipywidgets.Text(placeholder="value", layout=_wide(110), continuous_update=False)
        self._knob.observe(lambda _: setattr(self._value, "value", str(record.knobs[self._knob.value])), "value")
        self._value.value = str(record.knobs[self._knob.value])
        predict = ipywidgets.Button(description="Predict", tooltip="On the simulated device, from this run's op times", layout=_wide(90))
        measure = ipywidgets.Button(description="Measure", tooltip="Both settings in turns, and the prediction beside it", layout=_wide(90))
        predict.on_click(lambda _: self._asked(measure=False))
        measure.on_click(lambda _: self._asked(measure=True))
        return [_title("Turn a knob instead: this can be measured"), ipywidgets.HBox([self._knob, self._value, predict, measure])]

    def _turned(self, _: object) -> None:
        if not self._listening:
            return
        scale = {name: slider.value for name, slider in self._speeds.items() if slider.value != 1.0}
        host = scale.pop("host program", 1.0)
        widths = {lane: slider.value for lane, slider in self._wide.items() if slider.value != self._widths[lane]}
        self._try(lambda: self.set(scale, widths, host))
        self._offer(widths)

    def _offer(self, widths: Mapping[str, int]) -> None:
        """A lane whose width is a knob can be made wider for real."""
        for lane, units in widths.items():
            if hasattr(self, "_knob") and lane in self.run.record.knobs:
                self._knob.value, self._value.value = lane, str(units)
                self._say(f"{lane} is a knob: Measure makes it so for real, and shows the prediction beside it.")

    def _asked(self, measure: bool) -> None:
        changed = {self._knob.value: self._value.value}
        self._say("Measuring both settings in turns …" if measure else "")
        self._try(lambda: self.measure(**changed) if measure else self.knobs(**changed))
        if measure and self._message.value.startswith("<i>Measuring"):
            self._say("")

    def _try(self, ask: Any) -> None:
        try:
            ask()
        except (LabkitError, KeyboardInterrupt) as error:
            self._say(str(error) or "interrupted")

    def _say(self, words: str) -> None:
        self._message.value = f"<i>{escape(words)}</i>" if words else ""

    def _show(self, answer: Answer) -> None:
        self.answer = answer
        first, *others = map(escape, lines(answer))
        self._outputs.put("words", {"text/html": f"<p><b>{first}</b><br>{'<br>'.join(others)}</p>", "text/plain": repr(self)})
        figure = figures.one_axis(rates(answer), self.run.shown("the run"), answer.unit, answer.change)
        self._outputs.put("one axis", figure_bundle(figure))


def lines(answer: Answer) -> list[str]:
    """The answer in words: the change and its gain, what would then be the limit, how far the model may be trusted, what was measured."""
    told = [f"{answer.change}: {answer.ratio:.2f}×, {answer.said(answer.predicted)} predicted ({answer.how})"]
    if answer.busiest is not None:
        told.append(f"the busiest lane would be {answer.busiest[0]}, {format_percent(answer.busiest[1])} of the time")
    told.append(f"of the run as it was, the model is off by {format_percent(abs(answer.error_as_it_was))}")
    if answer.residual is not None:
        told.append(f"measured: {answer.measured_ratio:.2f}× ({answer.low:.2f} to {answer.high:.2f}); residual {answer.residual_words}")
        told += [f"weak: {reason}" for reason in answer.weak]
    elif answer.failed:
        told.append(f"not measured: {answer.sentence}")
    return told


def rates(answer: Answer) -> list[Rate]:
    """The rows of the figure on one axis."""
    rows = [
        Rate("simulated", "predicted", answer.measured) if answer.simulated else Rate("measured", "measured", answer.measured),
        Rate("the model as it was", "predicted", answer.as_it_was),
        Rate("predicted with it", "predicted", answer.predicted, change=True),
    ]
    if answer.bound is not None:
        rows.insert(2, Rate("bound with it", "bound", answer.bound, change=True))
    if answer.measured_ratio is not None and answer.low is not None and answer.high is not None:
        ends = [ratio * answer.measured for ratio in (answer.measured_ratio, answer.low, answer.high)]
        rows.append(Rate("measured with it", "measured", ends[0], True, *ends[1:]))
    return rows


def _title(words: str) -> ipywidgets.HTML:
    return ipywidgets.HTML(f"<b>{escape(words)}</b>")


def _row(label: str, control: ipywidgets.Widget) -> ipywidgets.HBox:
    return ipywidgets.HBox([ipywidgets.Label(label, layout=_wide(_LABEL_PX)), control])


def _wide(px: int) -> ipywidgets.Layout:
    return ipywidgets.Layout(width=f"{px}px")
