"""What the browser sends is read, or ignored with a reason in the log; the state that the session sets is what is synchronised."""

import logging
from pathlib import Path
from typing import Any

import pytest

from labkit.errors import LabkitError
from labkit.panel import controls as controls_module
from labkit.panel.controls import Command, Controls, no_status, no_values, read_command
from tests.panel.controls_page import SPEC, STATES, traits


class Spied(Controls):
    """Controls that keep what they would send to the browser."""

    def send(self, content: Any, buffers: Any = None) -> None:
        self.__dict__.setdefault("to_browser", []).append(content)


@pytest.fixture
def widget() -> Spied:
    return Spied(SPEC)


def receive(widget: Controls, content: Any) -> None:
    """As a message of the browser arrives."""
    widget._handle_custom_msg(content, [])


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ({"do": "turn", "seq": 1, "knob": "prefetch", "value": 4}, Command("turn", 1, name="prefetch", value=4)),
        ({"do": "turn", "seq": 1, "knob": "data", "value": None}, Command("turn", 1, name="data")),
        ({"do": "turn", "seq": 1, "knob": "pinned", "value": False}, Command("turn", 1, name="pinned", value=False)),
        ({"do": "device", "seq": 2, "name": "cpu"}, Command("device", 2, name="cpu")),
        ({"do": "machine", "seq": 3, "figure": "cores", "value": 8}, Command("machine", 3, name="cores", value=8)),
        ({"do": "preset", "seq": 4, "name": "naive"}, Command("preset", 4, name="naive")),
        ({"do": "pin_stored", "seq": 5, "id": "a1"}, Command("pin_stored", 5, name="a1")),
        ({"do": "run_for", "seq": 6, "seconds": None}, Command("run_for", 6)),
        ({"do": "run_for", "seq": 6, "seconds": 2.5}, Command("run_for", 6, value=2.5)),
        (
            {"do": "guess", "seq": 7, "ratio": 1.5, "bottleneck": "h2d"},
            Command("guess", 7, value=1.5, bottleneck="h2d"),
        ),
        *(({"do": do, "seq": 8}, Command(do, 8)) for do in ("run", "stop", "pin", "unpin", "compare", "reset", "clear_guess")),
    ],
)
def test_every_command_is_read(message: dict[str, Any], command: Command):
    assert read_command(message) == command


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "without 'do'"),
        ([1], "without 'do'"),
        ({}, "without 'do'"),
        ({"do": ["run"], "seq": 1}, "without 'do'"),
        ({"do": "format_disk", "seq": 1}, "no command 'format_disk'"),
        ({"do": "run"}, "takes do, seq"),
        ({"do": "run", "seq": 1, "more": 1}, "takes do, seq"),
        ({"do": "run", "seq": 0}, "seq=0 is not allowed"),
        ({"do": "run", "seq": True}, "seq=True is not allowed"),
        ({"do": "run", "seq": "1"}, "seq='1' is not allowed"),
        ({"do": "turn", "seq": 1, "knob": "prefetch"}, "takes do, knob, seq, value"),
        ({"do": "turn", "seq": 1, "knob": "", "value": 1}, "knob='' is not allowed"),
        ({"do": "turn", "seq": 1, "knob": 3, "value": 1}, "knob=3 is not allowed"),
        ({"do": "turn", "seq": 1, "knob": "prefetch", "value": [1]}, r"value=\[1\] is not allowed"),
        ({"do": "turn", "seq": 1, "knob": "prefetch", "value": float("nan")}, "value=nan is not allowed"),
        ({"do": "turn", "seq": 1, "knob": "prefetch", "value": 10**400}, "is not allowed"),
        ({"do": "turn", "seq": 1, "knob": "data", "value": "x" * 10_001}, "is not allowed"),
        ({"do": "machine", "seq": 1, "figure": "cores", "value": 0}, "greater than 0"),
        ({"do": "machine", "seq": 1, "figure": "cores", "value": "8"}, "greater than 0"),
        ({"do": "run_for", "seq": 1, "seconds": -1}, "seconds=-1 is not allowed"),
        ({"do": "guess", "seq": 1, "ratio": None, "bottleneck": "h2d"}, "ratio=None is not allowed"),
        ({"do": "guess", "seq": 1, "ratio": 2, "bottleneck": None}, "bottleneck=None is not allowed"),
    ],
)
def test_what_is_no_command_is_refused_with_its_reason(message: Any, words: str):
    with pytest.raises(LabkitError, match=words):
        read_command(message)


def test_a_command_reaches_every_callback(widget: Spied):
    first: list[Command] = []
    second: list[Command] = []
    widget.on_do(first.append)
    widget.on_do(second.append)
    receive(widget, {"do": "run", "seq": 1})
    assert first == second == [Command("run", 1)]


def test_a_malformed_message_is_logged_reaches_nobody_and_is_not_waited_for(widget: Spied, caplog: pytest.LogCaptureFixture):
    heard: list[Command] = []
    widget.on_do(heard.append)
    with caplog.at_level(logging.WARNING):
        receive(widget, {"do": "turn", "seq": 9, "knob": "prefetch", "value": {}})
        receive(widget, "run")
    assert heard == []
    assert [record.message.partition(":")[0] for record in caplog.records] == ["the panel ignored a message"] * 2
    assert [sent["ignored"] for sent in widget.to_browser] == [9, None]


def test_a_new_widget_shows_that_nothing_is_known_yet(widget: Spied):
    assert widget.values == no_values()
    assert widget.status == no_status()
    assert (widget.monitor, widget.alerts, widget.guess) == ([], [], None)


@pytest.mark.parametrize("state", STATES)
def test_the_state_that_is_set_is_what_the_browser_gets(state: str):
    widget = Controls(SPEC)
    shown = traits(state)
    for name, value in shown.items():
        setattr(widget, name, value)
    synchronised = widget.get_state()
    assert {name: synchronised[name] for name in shown} == shown


def test_two_widgets_do_not_share_their_values():
    one, other = Controls(SPEC), Controls(SPEC)
    one.values["knobs"]["prefetch"] = 4
    assert other.values == no_values()


def test_the_script_is_small():
    script = Path(controls_module.__file__).with_name("controls.js")
    assert len(script.read_bytes()) < 24_000
