"""Alerts in the record: there and back, absent in older records, refused where they are none."""

import json

import pytest

from labkit.runner.record import RunRecord, Verdict

ALERT = {
    "metric": "overlap", "level": "warning", "value": 0.4, "unit": "share", "limit": 0.5,
    "words": "overlap is 40 %, below the warning limit of 50 %", "reason": None, "counts": True,
}  # fmt: skip


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
