"""`labkit run --alerts`: what fires is said, recorded and shown, and gives exit code 3; a wrong file starts nothing."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labkit import lab
from labkit.cli import run as run_command
from labkit.cli.main import ALERTED
from labkit.errors import AlertError
from labkit.lab import Run
from labkit.lab import run as run_one
from labkit.monitor.alerts import EXAMPLE, Alert, Rule
from labkit.runner.record import RunRecord, Verdict

SMALL = ["--device", "cpu", "--steps", "20", "--image-size", "32", "--batch-size", "4", "--warmup", "2"]
ALWAYS = {"metric": "throughput", "when": "below", "warning": 2e9, "critical": 1e9}
NEVER = {"metric": "throughput", "when": "above", "warning": 1e9, "critical": 2e9}
ABSENT = {"metric": "gpu_utilization", "when": "below", "warning": 80, "critical": 60, "unit": "%"}
LENIENT = {"metric": "step_interval_p50", "when": "above", "warning": 0, "critical": 1000, "unit": "s", "level": "critical"}


def rules_file(*alerts: dict) -> str:
    Path("alerts.json").write_text(json.dumps({"schema_version": 1, "alerts": alerts}))
    return "alerts.json"


def test_an_alert_that_fires_is_said_recorded_and_shown_and_is_exit_code_3(labkit: Callable) -> None:
    ended = labkit("run", "pipeline", *SMALL, "--alerts", rules_file(ALWAYS, NEVER, ABSENT, LENIENT), "--json")
    assert ended.code == 3, ended.err
    record = json.loads(ended.out)
    assert record["status"] == "ok"
    levels = [(alert["metric"], alert["level"], alert["counts"]) for alert in record["alerts"]]
    assert levels == [
        ("throughput", "critical", True), ("throughput", "ok", False), ("gpu_utilization", None, False),
        ("step_interval_p50", "warning", False),
    ]  # fmt: skip
    assert record["alerts"][0]["value"] == record["metrics"]["throughput"]["value"]
    assert record["alerts"][0]["limit"] == 1e9

    fired, ok, absent, warning = (alert["words"] for alert in record["alerts"])
    assert ended.err.splitlines()[-3:] == [f"critical alert: {fired}", f"note: {absent}", f"warning alert: {warning}"]
    assert absent == "gpu_utilization is not evaluated: the run was not on a GPU, so none was watched"

    shown = labkit("show", "last")
    assert shown.code == 0
    assert shown.out.splitlines()[-4:] == [
        f"critical alert: {fired}", f"no alert: {ok}", f"note: {absent}", f"warning alert: {warning}",
    ]  # fmt: skip
    assert json.loads(labkit("show", "last", "--json").out)["alerts"] == record["alerts"]
    assert labkit("report", "last").code == 0
    assert f"critical alert: {fired}" in Path("report.html").read_text()


def ended_run(status: str, *alerts: Alert) -> Run:
    """A run that has ended, without having run."""
    record = RunRecord(
        id="20261130-231502-pipeline-3f2a", experiment="pipeline", status=status, reason="", knobs={}, device="cpu",
        device_label="CPU threads", measured=True, budget={}, started_at="2026-11-30T23:15:02+00:00", wall_s=1.0,
        verdict=Verdict("VALID", ()), metrics=_metrics(), alerts=tuple(alert.as_dict() for alert in alerts),
    )  # fmt: skip
    return Run(record, None)


@cache
def _metrics() -> dict[str, Any]:
    """Those of some run: one that measured nothing ends with 1 whatever the alerts say."""
    return run_one("pipeline", device="simulated:l4", steps=10, out=None).record.metrics


def alert(level: str | None, counts: bool) -> Alert:
    return Alert("overlap", level, None if level is None else 0.5, "share", None, "overlap is so", None, counts)


@pytest.mark.parametrize(
    ("status", "alerts", "code"),
    [
        ("ok", [], 0),
        ("ok", [alert("ok", False), alert(None, False)], 0),
        ("ok", [alert("warning", False)], 0),
        ("ok", [alert("ok", False), alert("warning", True)], ALERTED),
        ("failed", [alert("critical", True)], 1),
        ("cancelled", [alert("critical", True)], 130),
    ],
)
def test_the_exit_code_is_3_only_for_a_run_that_succeeded_and_an_alert_that_counts(
    labkit: Callable, monkeypatch: pytest.MonkeyPatch, status: str, alerts: Sequence[Alert], code: int
) -> None:
    monkeypatch.setattr(run_command.lab, "run", lambda *_, **__: ended_run(status, *alerts))
    assert labkit("run", "pipeline", "--alerts", "any.json", "--json").code == code


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([ALWAYS | {"metric": "speed"}], "alert 1: there is no metric 'speed'; there are: throughput"),
        ([ABSENT | {"critical": 90}], "alert 1: gpu_utilization: critical=90 and warning=80 are in the wrong order"),
        ([ALWAYS, ALWAYS], "two rules say when throughput is bad below a limit"),
        ([], "alerts must be a list of one or more rules"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(labkit: Callable, rules: list[dict], says: str) -> None:
    ended = labkit("run", "pipeline", *SMALL, "--alerts", rules_file(*rules))
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("name", ["nowhere.json", "", "."])
def test_a_file_that_is_not_there_is_refused(labkit: Callable, name: str) -> None:
    ended = labkit("run", "pipeline", *SMALL, "--alerts", name)
    assert (ended.code, ended.out) == (2, "")
    assert f"alerts file {name}: " in ended.err
    assert not Path("runs").exists()


def test_of_a_simulated_run_nothing_is_evaluated_and_that_is_said(labkit: Callable) -> None:
    words = ["run", "pipeline", "--device", "simulated:h200", "--steps", "20"]
    ended = labkit(*words, "--alerts", rules_file(ALWAYS), "--json")
    assert ended.code == 0, ended.err
    [told] = json.loads(ended.out)["alerts"]
    assert told["level"] is None
    assert "note: throughput is not evaluated: simulated: an alert is about what was measured" in ended.err


def test_the_help_names_the_example(labkit: Callable) -> None:
    text = "".join(labkit("run", "--help").out.split())
    assert "--alertsFILE" in text
    assert "".join(str(EXAMPLE).split()) in text


def test_rules_may_be_given_from_python_and_a_wrong_one_is_refused_before_anything_runs(tmp_path: Path) -> None:
    rule = Rule("overlap", "below", 0.5, 0.2)
    run = lab.run("pipeline", device="simulated:h200", steps=20, alerts=[rule])
    assert [told["metric"] for told in run.record.alerts] == ["overlap"]
    assert lab.run("pipeline", device="simulated:h200", steps=20).record.alerts == ()
    with pytest.raises(AlertError, match="two rules"):
        lab.run("pipeline", device="simulated:h200", steps=20, alerts=[rule, rule], out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
