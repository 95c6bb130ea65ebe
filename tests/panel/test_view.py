"""From a state to what the controls show."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labkit import lab
from labkit.experiments import experiment
from labkit.figures.guess import Guess
from labkit.monitor.alerts import Alert
from labkit.monitor.strip import Dial
from labkit.panel import view
from labkit.panel.setting import Pinned, Setting
from labkit.panel.state import Message, State

PIPELINE = experiment("pipeline")
STATE = State(Setting(PIPELINE, PIPELINE.knobs(), "cpu"))
FIRED = Alert("process_cpu_share", "critical", 0.95, "share", 0.9, "process_cpu_share is 95 %, above 90 %", None, True)
FINE = replace(FIRED, metric="throughput", level="ok")
ABSENT = replace(FIRED, metric="gpu_utilization", level=None, value=None, words="gpu_utilization is not evaluated: no GPU")


def test_values_hold_every_knob_and_what_is_inert_and_cold():
    values = view.values(STATE)
    assert set(values["knobs"]) == set(PIPELINE.knobs.model_fields)
    assert set(values["inert"]) == {"pinned"}
    assert "model" in values["cold"]
    assert values["machine"] == {}
    json.dumps(values, allow_nan=False)


def test_a_simulated_machine_has_its_figures():
    values = view.values(State(STATE.setting.on("simulated:t4")))
    assert values["machine"]["gpu_memory_bytes"] == 16e9


@pytest.mark.parametrize(
    ("phase", "a", "can"),
    [
        ("idle", None, {"run", "pin", "reset"}),
        ("idle", Pinned(STATE.setting), {"run", "pin", "reset", "compare"}),
        ("running", Pinned(STATE.setting), {"stop", "pin", "compare"}),
        ("starting", None, {"stop"}),
        ("comparing", None, {"stop"}),
        ("waiting", None, {"stop"}),
        ("stopping", None, {"stop"}),
    ],
)
def test_buttons_that_can_be_pressed(phase: str, a: Pinned | None, can: set[str]):
    buttons = view.status(replace(STATE, phase=phase, a=a), [], 5.0)["can"]
    assert {name for name, may in buttons.items() if may} == can


def test_a_message_has_its_words_and_what_to_do():
    status = view.status(replace(STATE, message=Message("error", "broken", "mend it")), [], 5.0)
    assert status["message"] == {"level": "error", "words": "broken", "what_to_do": "mend it"}
    json.dumps(status, allow_nan=False)


def test_a_copied_command_is_what_is_shown():
    state = State(STATE.setting.turned({"prefetch": 7}), run_for=3.0)
    assert view.status(state, [], 5.0)["copy"]["CLI"] == "labkit run pipeline --device cpu --prefetch 7 --seconds 3"


def test_a_dial_without_a_value_has_a_reason_and_one_with_an_alert_its_level():
    dials = [Dial("process_cpu_share", "CPU", "95 %", 0.95, "share"), Dial("gpu_utilization", "GPU", "–", None, "share", "no GPU")]
    shown = view.monitor(dials, [FIRED, ABSENT])
    assert [(dial["text"], dial["reason"], dial["level"]) for dial in shown] == [("95 %", None, "critical"), (None, "no GPU", None)]


def test_alerts_that_fired_or_could_not_be_evaluated_are_shown_and_those_that_are_fine_are_not():
    assert [alert["level"] for alert in view.alerts([FIRED, FINE, ABSENT])] == ["critical", "info"]


def test_a_guess_is_shown_as_committed():
    assert view.guess(STATE) is None
    assert view.guess(replace(STATE, guess=Guess(1.5, "h2d"))) == {"ratio": 1.5, "bottleneck": "h2d", "committed": True}


def test_stored_runs_are_those_of_the_experiment_the_newest_first(tmp_path: Path):
    ids = [lab.run("pipeline", device="simulated:t4", steps=20, out=tmp_path, image_size=32, batch_size=4).record.id for _ in range(2)]
    stored = view.stored_runs(str(tmp_path), "pipeline")
    assert {run["id"] for run in stored} == set(ids)
    assert all("simulated T4, a prediction" in run["words"] for run in stored)
    assert view.stored_runs(str(tmp_path), "another") == []
    assert view.stored_runs(str(tmp_path / "nothing"), "pipeline") == []
    assert view.stored_runs(None, "pipeline") == []
