"""From a session's state to what the controls show: plain dictionaries, made anew for each state."""

from collections.abc import Sequence
from typing import Any

from labkit.errors import StoreError
from labkit.monitor.alerts import Alert
from labkit.monitor.strip import Dial
from labkit.panel.copy_as import copy_as
from labkit.panel.machines import values_on
from labkit.panel.setting import Setting
from labkit.panel.state import State
from labkit.runner.record import RunRecord
from labkit.store import StoredRun, list_runs

STORED_SHOWN = 30
STORED_READ = 90
"""Of a folder with thousands of runs the newest are looked at."""


def values(state: State) -> dict[str, Any]:
    """What stands in each control."""
    setting = state.setting
    return {
        "seq": state.seq,
        "knobs": setting.knobs.model_dump(mode="json"),
        "device": setting.device,
        "machine": _machine(setting),
        "inert": setting.inert,
        "cold": setting.cold,
        "run_for": state.run_for,
        "views": list(state.views),
    }


def status(state: State, stored: Sequence[dict[str, str]], seconds: float) -> dict[str, Any]:
    """What is going on, and which buttons may be pressed. `seconds` is what a copied command would measure for."""
    setting, message = state.setting, state.message
    copied = copy_as(setting.experiment.name, setting.knobs, setting.device, state.run_for or seconds, setting.changes, None)
    return {
        "phase": state.phase,
        "words": state.words,
        "label": setting.label if setting.simulated else setting.honest_label,
        "simulated": setting.simulated,
        "can": {
            "run": not state.busy,
            "stop": state.busy,
            "pin": state.phase in ("idle", "running"),
            "compare": state.phase in ("idle", "running") and state.a is not None,
            "reset": not state.busy,
        },
        "message": message
        and {"level": message.level, "words": message.words, "what_to_do": message.what_to_do},
        "a": _a_words(state),
        "share": state.share,
        "stored": list(stored),
        "copy": {"CLI": copied.cli, "papermill": copied.papermill, "Python": copied.python},
    }


def monitor(dials: Sequence[Dial], alerts: Sequence[Alert]) -> list[dict[str, Any]]:
    """The monitor strip; a dial that an alert is about has its level."""
    levels = {alert.metric: alert.level for alert in alerts}
    return [
        {
            "name": dial.name,
            "label": dial.label,
            "text": dial.text if dial.value is not None else None,
            "reason": dial.reason,
            "level": levels.get(dial.name),
        }
        for dial in dials
    ]


def alerts(found: Sequence[Alert]) -> list[dict[str, Any]]:
    """The alerts that have fired; those that could not be evaluated say so."""
    return [{"words": alert.words, "level": alert.level or "info"} for alert in found if alert.level != "ok"]


def guess(state: State) -> dict[str, Any] | None:
    """The guess that was committed."""
    if state.guess is None:
        return None
    return {"ratio": state.guess.ratio, "bottleneck": state.guess.bottleneck, "committed": True}


def stored_runs(folder: str | None, experiment: str, content: str = "") -> list[dict[str, str]]:
    """The newest runs of the folder that may become A: those of this experiment that left something to show."""
    if folder is None:
        return []
    try:
        runs = [run for run in list_runs(folder, newest=STORED_READ) if isinstance(run, StoredRun)]
    except StoreError:
        return []  # there is no such folder yet
    fit = [run.record for run in runs if (run.record.experiment, run.record.content) == (experiment, content)]
    return [{"id": record.id, "words": _stored_words(record)} for record in fit[::-1][:STORED_SHOWN] if record.metrics and record.status == "ok"]


def _stored_words(record: RunRecord) -> str:
    rate = record.metrics.get("throughput", {}).get("value")
    number = "no throughput" if rate is None else f"{rate:,.0f} items/s"
    how = record.device_label if record.measured else f"{record.device_label}, a prediction"
    return f"{record.started_at[5:16].replace('T', ' ')}  {number}  {how}  …{record.id[-4:]}"


def _a_words(state: State) -> str | None:
    if state.a is None:
        return None
    measured = "" if state.a.shown is not None else " (not measured yet)"
    return f"{state.a.setting.words()}, {state.a.setting.label}{measured}"


def _machine(setting: Setting) -> dict[str, float]:
    return {} if setting.machine is None else values_on(setting.machine)
