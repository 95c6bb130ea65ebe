"""What the panel's controls show, as plain data: one control for each knob of the declaration, the devices, the presets, the
machine's sliders. Nothing here knows a widget; `controls.py` carries this data to the browser and `controls.js` draws it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import floor, log10
from typing import Any, Literal, get_args, get_origin

from labkit.device.machine import FIGURES
from labkit.device.open import Choice
from labkit.errors import MachineError
from labkit.experiments.experiment import Experiment
from labkit.knobs import Knobs
from labkit.knobs.coerce import is_optional, without_none
from labkit.knobs.text import value_text

Kind = Literal["slider", "number", "choice", "switch", "text"]

WIDEST_SLIDER = 128
"""Whole numbers of a wider range have a number field: one pixel of a slider would be several values."""
WIDEST_OF_NUMBERS = 1000.0
"""Other numbers likewise: with a rate from 0.01 to a million, every rate that one wants is the slider's left end."""

BOTTLENECKS: Mapping[str, str] = {
    "compute": "the training step",
    "workers": "loading the images",
    "h2d": "copying to the device",
    "d2h": "copying to the host",
    "host": "the host program",
}
"""What may hold B back, for the guess before the measurement: lane role → words."""

HELP: Mapping[str, str] = {
    "device": "Where it runs. A simulated device predicts, it does not measure.",
    "preset": "Turns several knobs at once.",
    "run": "Run with these knobs. Live knobs act on the next step, cold ones restart the worker.",
    "stop": "End the run at the next step; what was measured is kept.",
    "run_for": "How long a run lasts.",
    "pin": "Keep the run shown as A; what runs from now on is B.",
    "unpin": "Forget A.",
    "compare": "Measure A and B in turns and say what changed, with an interval. What is running is stopped first.",
    "reset": "Knobs, device and machine as they were at the start; A and the guess are forgotten.",
    "stored": "Take a run of the store as A.",
    "guess": "Say what you expect before you measure; the panel compares it with what came out.",
    "copy": "The same run as a command, a papermill call or Python.",
    "cold": "Turning it restarts the worker.",
    "machine": "What-if: figures of the simulated machine.",
    "view": "Further figures of a run that has ended.",
}

VIEWS: Mapping[str, tuple[str, str]] = {
    "why": ("why", "From the ideal to what was measured: what the time was lost to, and the critical path."),
    "what if": ("what if", "How much faster it would be if a stage were: its measured trace, replayed."),
    "mistakes": ("measured wrongly", "What the usual mistakes would have made of this very run. For teaching: all of it is INVALID."),
}
"""What may be shown besides: name → words, help."""

_MANTISSAS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_SLIDER_STEPS = 100


@dataclass(frozen=True)
class MachineSlider:
    """One figure of a simulated machine that may be turned.

    figure     its name in the machine's file
    unit       the unit it is shown in; `scale` is one of it in the figure's own unit (1e9 where GB/s stand for bytes/s)
    low, high  the least and the greatest value, in the unit shown
    log        equal ratios are equally far apart on the slider
    whole      only whole numbers, in the unit shown
    """

    figure: str
    label: str
    unit: str
    scale: float
    low: float
    high: float
    log: bool
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise MachineError(f"slider '{self.figure}': a scale of {self.scale} is not allowed; allowed: more than 0")
        if not self.low < self.high:
            raise MachineError(f"slider '{self.figure}' goes from {self.low} to {self.high}; low must be less than high")
        if self.log and not self.low > 0:
            raise MachineError(f"slider '{self.figure}' is logarithmic and begins at {self.low}; it must begin above 0")


@dataclass(frozen=True)
class MachinePreset:
    """Figures to set together, in their own units, and where their values come from."""

    name: str
    changes: Mapping[str, float]
    source: str


@dataclass(frozen=True)
class KnobControl:
    """The control of one knob.

    min, max  bounds, None where there is none
    step      the slider's step; of a number field None where any number will do
    whole     whole numbers only
    allowed   what it takes, in words
    default   as JSON
    choices   the values of a choice, () otherwise
    optional  None is a value too
    cold      turning it restarts the worker
    doubles   buttons double and halve it
    """

    name: str
    kind: Kind
    min: float | None
    max: float | None
    step: float | None
    whole: bool
    unit: str
    help: str
    allowed: str
    default: Any
    choices: tuple[Any, ...]
    optional: bool
    cold: bool
    doubles: bool


@dataclass(frozen=True)
class MachineControl:
    """The slider of one figure; every number in the unit shown, which is `scale` of the figure's own unit.

    figure  its name, as `name` is: a row of the page is drawn from the same fields for a knob and for a figure
    step    the slider's step; None for a slider of `stops`
    stops   the values that a logarithmic slider visits, () for a linear one
    """

    figure: str
    name: str
    kind: Literal["slider"]
    help: str
    allowed: str
    label: str
    unit: str
    scale: float
    min: float
    max: float
    log: bool
    step: float | None
    whole: bool
    stops: tuple[float, ...]


def control_spec(
    experiment: Experiment,
    devices: Sequence[Choice],
    *,
    machine: Sequence[MachineSlider] = (),
    machine_presets: Sequence[MachinePreset] = (),
    bottlenecks: Mapping[str, str] = BOTTLENECKS,
) -> dict[str, Any]:
    """All that does not change while the panel is open, ready for strict JSON.

    Keys: experiment, question, knobs, devices, presets (each with its knob values), machine, machine_presets, bottlenecks, views, help. A bottleneck's
    words are in help, by its name.
    """
    return {
        "experiment": experiment.name,
        "question": experiment.question,
        "knobs": [_listed(asdict(control)) for control in knob_controls(experiment.knobs)],
        "devices": [_device(choice) for choice in devices],
        "presets": [_preset(name, values, experiment) for name, values in experiment.presets.items()],
        "machine": [_listed(asdict(machine_control(slider))) for slider in machine],
        "machine_presets": [_machine_preset(preset) for preset in machine_presets],
        "bottlenecks": list(bottlenecks),
        "views": [{"name": name, "words": words, "help": more} for name, (words, more) in VIEWS.items()],
        "help": {**HELP, **bottlenecks},
    }


def knob_controls(knobs: type[Knobs]) -> list[KnobControl]:
    """One control for each knob, in the order of the declaration."""
    defaults = knobs().model_dump(mode="json")
    return [_knob_control(knobs, name, defaults[name]) for name in knobs.model_fields]


def machine_control(slider: MachineSlider) -> MachineControl:
    """The control of one figure of a simulated machine."""
    return MachineControl(
        figure=slider.figure,
        name=slider.figure,
        kind="slider",
        help=FIGURES.get(slider.figure, slider.label),
        allowed=f"{slider.low:g} to {slider.high:g}",
        label=slider.label,
        unit=slider.unit,
        scale=slider.scale,
        min=slider.low,
        max=slider.high,
        log=slider.log,
        step=None if slider.log else 1 if slider.whole else _even_step(slider.high - slider.low),
        whole=slider.whole,
        stops=_stops(slider) if slider.log else (),
    )


def _knob_control(knobs: type[Knobs], name: str, default: Any) -> KnobControl:
    annotation = knobs.annotation(name)
    optional, typed = is_optional(annotation), without_none(annotation)
    least, greatest = knobs.bounds(name)
    kind = _kind(typed, least, greatest, optional)
    return KnobControl(
        name=name,
        kind=kind,
        min=least,
        max=greatest,
        step=_step(kind, typed, least, greatest),
        whole=typed is int,
        unit=knobs.unit(name),
        help=knobs.model_fields[name].description or "",
        allowed=knobs.allowed(name),
        default=default,
        choices=_choices(typed, optional) if kind == "choice" else (),
        optional=optional,
        cold=not knobs.is_live(name),
        doubles=kind == "number" and not optional and least is not None and least > 0,
    )


def _kind(typed: Any, least: float | None, greatest: float | None, optional: bool) -> Kind:
    """The control that suits a type. A switch and a slider have no place for none."""
    if typed is bool:
        return "choice" if optional else "switch"
    if get_origin(typed) is Literal:
        return "choice"
    if typed not in (int, float):
        return "text"
    bounded = least is not None and greatest is not None and least < greatest
    narrow = bounded and greatest - least <= (WIDEST_SLIDER if typed is int else WIDEST_OF_NUMBERS)
    return "slider" if narrow and not optional else "number"


def _choices(typed: Any, optional: bool) -> tuple[Any, ...]:
    values = (False, True) if typed is bool else get_args(typed)
    return (None, *values) if optional else values


def _step(kind: Kind, typed: Any, least: float | None, greatest: float | None) -> float | None:
    if kind not in ("slider", "number"):
        return None
    if typed is int:
        return 1
    return _even_step(greatest - least) if kind == "slider" else None


def _even_step(span: float) -> float:
    """The largest of 1, 2, 5, 10, … (and their tenths) that gives a slider a hundred steps or more."""
    finest = span / _SLIDER_STEPS
    decade = floor(log10(finest))
    return _at(max(mantissa for mantissa in (1, 2, 5) if mantissa <= finest / 10**decade * (1 + 1e-9)), decade)


def _stops(slider: MachineSlider) -> tuple[float, ...]:
    """Round numbers from the least to the greatest value, about ten a decade, and both ends."""
    decades = range(floor(log10(slider.low)), floor(log10(slider.high)) + 1)
    round_ones = [_at(mantissa, decade) for decade in decades for mantissa in _MANTISSAS]
    within = {slider.low, slider.high, *(value for value in round_ones if slider.low < value < slider.high)}
    return tuple(sorted(value for value in within if not slider.whole or float(value).is_integer()))


def _at(mantissa: float, decade: int) -> float:
    """mantissa · 10**decade, as the decimal number that it looks like."""
    return float(f"{mantissa}e{decade}")


def _device(choice: Choice) -> dict[str, Any]:
    words = choice.label if choice.available else f"{choice.label} (not here: {choice.reason})"
    return {**asdict(choice), "words": words, "simulated": choice.name.partition(":")[0] == "simulated"}


def _machine_preset(preset: MachinePreset) -> dict[str, Any]:
    return {"name": preset.name, "words": preset.source, "figures": dict(preset.changes)}


def _preset(name: str, values: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    """Its own knobs in words; for the page also the defaults of those that other presets turn: it is in force only with them."""
    words = ", ".join(f"{knob}={value_text(value)}" for knob, value in values.items())
    defaults = experiment.knobs().model_dump(mode="json")
    turned = dict.fromkeys(knob for preset in experiment.presets.values() for knob in preset)
    return {"name": name, "words": words, "knobs": {knob: values.get(knob, defaults[knob]) for knob in turned}}


def _listed(fields: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists: what JSON makes of them, so that both sides hold the same."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
