"""Alerts, facts and energy in the record: there and back, absent in older records, refused where they are none."""

import json
from dataclasses import replace

import pytest

from labkit.metrics.metric import Metric
from labkit.runner.record import RunRecord, Verdict

ALERT = {
    "metric": "overlap", "level": "warning", "value": 0.4, "unit": "share", "limit": 0.5,
    "words": "overlap is 40 %, below the warning limit of 50 %", "reason": None, "counts": True,
}  # fmt: skip

JOULES = Metric("energy per item", 1.5, "J/item", 9, "power ÷ throughput", "lower")


@pytest.fixture
def record() -> RunRecord:
    return RunRecord(
        id="20261130-231502-pipeline-3f2a", experiment="pipeline", status="ok", reason="", knobs={}, device="cpu",
        device_label="CPU threads", measured=True, budget={}, started_at="2026-11-30T23:15:02+00:00", wall_s=1.0,
        verdict=Verdict("WEAK", ("n = 2 steps",)), alerts=(ALERT,),
    )  # fmt: skip


def test_alerts_come_back_as_they_were_written(record: RunRecord):
    data = json.loads(json.dumps(record.as_dict(), allow_nan=False))
    assert data["alerts"] == [ALERT]
    assert data["schema_version"] == 1
    assert RunRecord.from_dict(data) == record


def test_a_record_from_before_there_were_alerts_has_none(record: RunRecord):
    data = record.as_dict()
    del data["alerts"]
    assert RunRecord.from_dict(data).alerts == ()


@pytest.mark.parametrize("alerts", [5, None, ["overlap"], [{"metric": "overlap"}], [ALERT | {"value": "much"}], [ALERT | {"words": None}]])
def test_what_is_no_alert_breaks_the_record(record: RunRecord, alerts: object):
    with pytest.raises((TypeError, KeyError)):
        RunRecord.from_dict(record.as_dict() | {"alerts": alerts})


def test_facts_of_the_verdict_come_back(record: RunRecord):
    told = replace(record, verdict=Verdict("WEAK", ("n = 2 steps",), ("closed loop",)))
    assert RunRecord.from_dict(json.loads(json.dumps(told.as_dict()))).verdict.facts == ("closed loop",)


def test_a_record_from_before_there_were_facts_has_none(record: RunRecord):
    data = record.as_dict()
    del data["verdict"]["facts"]
    assert RunRecord.from_dict(data) == record
    assert RunRecord.from_dict(data).verdict.facts == ()


def test_energy_comes_back_as_metrics(record: RunRecord):
    told = replace(record, energy={"energy per item": JOULES.as_dict()})
    again = RunRecord.from_dict(json.loads(json.dumps(told.as_dict())))
    assert again == told
    assert again.energy_metrics == {"energy per item": JOULES}


def test_a_record_from_before_there_was_energy_has_none(record: RunRecord):
    data = record.as_dict()
    del data["energy"]
    assert RunRecord.from_dict(data).energy_metrics == {}


@pytest.mark.parametrize("energy", [5, ["J"], {"energy per item": 3.0}, {"energy per item": {"value": 3.0}}])
def test_what_is_no_metric_breaks_the_record(record: RunRecord, energy: object):
    with pytest.raises((TypeError, KeyError)):
        RunRecord.from_dict(record.as_dict() | {"energy": energy})
