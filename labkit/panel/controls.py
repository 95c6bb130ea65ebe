"""The controls of the panel as one widget: it shows the state that the session gives it, and says what people ask for.

`spec` (from `control_spec`) is drawn once; `values`, `status`, `monitor`, `alerts` and `guess` are redrawn whenever they are set.
What people do comes back as a `Command` to every callback given to `on_do`. The widget decides nothing and runs nothing.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from labkit.errors import LabkitError

_HERE = Path(__file__).parent
_LOG = logging.getLogger(__name__)
_LONGEST_TEXT = 10_000
_MOST = 2**53
"""Whole numbers up to here are the same in JavaScript."""

Value = bool | int | float | str | None


def no_values() -> dict[str, Any]:
    """`values` before the session has set them."""
    return {"seq": 0, "knobs": {}, "device": "", "machine": {}, "inert": {}, "cold": [], "run_for": None, "views": []}


def no_status() -> dict[str, Any]:
    """`status` before the session has set it: nothing runs, and nothing may be asked for."""
    return {
        "phase": "idle",
        "words": "",
        "label": "",
        "simulated": False,
        "can": {"run": False, "stop": False, "pin": False, "compare": False, "reset": False},
        "message": None,
        "a": None,
        "share": None,
        "stored": [],
        "copy": {},
    }


@dataclass(frozen=True)
class Command:
    """What somebody asked for on the panel.

    do          name                     value
    turn        a knob                   its value: text, number, switch or None
    machine     a figure                 its value, in the figure's own unit
    device      a device
    preset      a preset
    machine_preset  figures of the simulated machine that go together
    pin_stored  the id of a stored run
    run_for                              seconds, None: until Stop
    view        what is shown besides    whether it is
    guess                                how many times as fast as A B will be; `bottleneck` is a lane role
    run, stop, pin, unpin, compare, reset, clear_guess

    seq  commands are numbered from 1 upwards. `values["seq"]` tells the browser up to which one the values have been heard.
    """

    do: str
    seq: int
    name: str | None = None
    value: Value = None
    bottleneck: str | None = None


class Controls(anywidget.AnyWidget):
    """The controls.

    spec     `control_spec(experiment, devices, …)`
    values   {"seq", "knobs": {name: value}, "device", "machine": {figure: value or None}, "inert": {name: reason}, "cold": [name],
             "run_for": seconds or None, "views": [name]}
             a figure that is None is not given and may be turned; one that is not there may not
    status   {"phase": idle | waiting | starting | running | stopping | comparing, "words", "label", "simulated",
             "can": {"run", "stop", "pin", "compare", "reset"}, "message": {"level": info | warning | error, "words",
             "what_to_do"} or None, "a": words or None, "share": 0 to 1 or None, "stored": [{"id", "words"}],
             "copy": {"CLI": text, "papermill": text, "Python": text}}
    monitor  [{"name", "label", "text", "reason", "level": ok | warning | critical or None}]; text None: absent, with its reason
    alerts   [{"words", "level"}]
    guess    {"ratio", "bottleneck", "committed"} or None

    Set each as a whole: a change inside one of them goes unnoticed.
    """

    _esm = _HERE / "controls.js"
    _css = _HERE / "controls.css"

    spec = traitlets.Dict().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    monitor = traitlets.List(traitlets.Dict()).tag(sync=True)
    alerts = traitlets.List(traitlets.Dict()).tag(sync=True)
    guess = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, spec: dict[str, Any]):
        super().__init__(spec=spec, values=no_values(), status=no_status())
        self._callbacks: list[Callable[[Command], None]] = []
        self.on_msg(self._received)

    def on_do(self, callback: Callable[[Command], None]) -> None:
        """Call this with every command, in the thread that reads the kernel's messages: it must be quick."""
        self._callbacks.append(callback)

    def _received(self, _widget: object, content: Any, _buffers: object) -> None:
        """Pass on a command. What is not one is logged, and the browser is told not to wait for its echo."""
        try:
            command = read_command(content)
        except LabkitError as error:
            _LOG.warning("the panel ignored a message: %s", error)
            self.send({"ignored": content.get("seq") if isinstance(content, dict) else None, "reason": str(error)})
            return
        for callback in self._callbacks:
            callback(command)


def read_command(content: Any) -> Command:
    """A message of the browser as a command. Raises LabkitError: which part is wrong. Only its shape is looked at: whether there
    is such a knob, and whether it takes the value, is the session's to say."""
    if not isinstance(content, dict) or not isinstance(content.get("do"), str):
        raise LabkitError(f"a message without 'do' is no command: {_shown(content)}")
    do = content["do"]
    if do not in _FIELDS:
        raise LabkitError(f"there is no command {_shown(do)}; there are: {', '.join(_FIELDS)}")
    fields = _FIELDS[do]
    expected = {"do", "seq", *fields}
    if set(content) != expected:
        raise LabkitError(f"command '{do}' takes {', '.join(sorted(expected))}, not {_shown(list(content))}")
    if not _is_seq(content["seq"]):
        raise LabkitError(f"command '{do}': seq={_shown(content['seq'])} is not allowed; allowed: whole number, 1 or more")
    for field, (_, fits, allowed) in fields.items():
        if not fits(content[field]):
            raise LabkitError(f"command '{do}': {field}={_shown(content[field])} is not allowed; allowed: {allowed}")
    return Command(do, content["seq"], **{part: content[field] for field, (part, _, _) in fields.items()})


def _is_seq(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 0 and _is_text(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= _MOST
    return isinstance(value, float) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_ratio(value: Any) -> bool:
    return _is_number(value) and 0.001 <= value <= 1000


def _is_value(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_number(value) or (isinstance(value, str) and _is_text(value))


def _is_text(value: str) -> bool:
    """Short enough, and without halves of characters, which could not be sent back."""
    return len(value) <= _LONGEST_TEXT and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_seconds(value: Any) -> bool:
    return value is None or _is_positive(value)


_NAME = ("name", _is_name, "text that is not empty")
_FIELDS: Mapping[str, Mapping[str, tuple[str, Callable[[Any], bool], str]]] = {
    "turn": {"knob": _NAME, "value": ("value", _is_value, "text, a number, true, false or null")},
    "device": {"name": _NAME},
    "machine": {"figure": _NAME, "value": ("value", _is_positive, "a number greater than 0")},
    "preset": {"name": _NAME},
    "machine_preset": {"name": _NAME},
    "run": {},
    "stop": {},
    "pin": {},
    "pin_stored": {"id": _NAME},
    "unpin": {},
    "compare": {},
    "reset": {},
    "run_for": {"seconds": ("value", _is_seconds, "a number greater than 0, or null")},
    "view": {"name": _NAME, "on": ("value", _is_switch, "true or false")},
    "guess": {"ratio": ("value", _is_ratio, "a number from 0.001 to 1000"), "bottleneck": ("bottleneck", *_NAME[1:])},
    "clear_guess": {},
}
"""Command → the fields of its message → the part of `Command` that each becomes, its test, and what is allowed."""


def _shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
