"""What goes on around a run is watched by the process that asked for it, and comes to the run's verdict."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from labkit.monitor import Surroundings
from labkit.runner import watching as watching_module
from labkit.runner.compare import Side
from labkit.runner.execute import execute
from labkit.runner.job import Frame, Outcome
from labkit.runner.measure import record_of
from labkit.runner.watching import Watching
from labkit.runner.workers import Workers
from tests.runner.naps import Naps, nap_job

BUSY = "the machine was shared: other processes kept 50 % of the cores busy meanwhile; up to 20 % is let pass"


def sensed(value: float) -> dict[str, Any]:
    return {"unit": "share", "n": 1, "min": value, "mean": value, "max": value, "last": value, "reason": None}


class Crowd:
    """Surroundings in which others keep half of the cores busy; it notes what it is asked."""

    def __init__(self) -> None:
        self.asked = ["open"]
        CROWDS.append(self)

    def begin(self) -> None:
        self.asked.append("begin")

    def look(self) -> None:
        self.asked.append("look")

    def summary(self) -> dict[str, Any]:
        return {"others_cpu_share": sensed(0.5)}


CROWDS: list[Crowd] = []


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    CROWDS.clear()
    monkeypatch.setattr(watching_module, "Surroundings", Crowd)


def measured(steps: int = 30, monitor: dict[str, Any] | None = None) -> Outcome:
    """The outcome of a run on the virtual clock, taken for a measurement."""
    outcome = execute(nap_job(steps=steps), Naps())
    return replace(outcome, trace=replace(outcome.trace, meta={**outcome.trace.meta, "measured": True}), monitor=monitor or {})


def frame(measured_ns: int) -> Frame:
    return Frame(1, measured_ns, 0.5)


def test_it_counts_anew_with_the_first_frame_after_the_warm_up(crowd: None):
    seen: list[Frame] = []
    watching = Watching(replace(nap_job(), device="cpu"), seen.append)
    for ns in (0, 0, 7, 9):
        watching.on_frame(frame(ns))
    assert CROWDS[0].asked == ["open", "look", "look", "begin", "look", "look"]
    assert [each.measured_ns for each in seen] == [0, 0, 7, 9], "the caller is told as before"


def test_what_was_seen_joins_the_sensors_of_the_run(crowd: None):
    watching = Watching(replace(nap_job(), device="cpu"), None)
    watching.on_frame(frame(1))
    added = watching.added_to(measured(monitor={"process_cpu_share": sensed(0.2)}))
    assert set(added.monitor) == {"process_cpu_share", "others_cpu_share"}


def test_a_run_without_a_trace_and_a_simulated_one_are_left_as_they_are(crowd: None):
    failed = Outcome("failed", "killed", None, 1.0)
    assert Watching(replace(nap_job(), device="cpu"), None).added_to(failed) is failed
    outcome = measured()
    assert Watching(nap_job(), None).added_to(outcome) is outcome
    assert len(CROWDS) == 1, "of a simulation nothing is watched"


def test_a_real_run_is_weak_where_others_kept_the_cores_busy(crowd: None):
    job = nap_job(steps=40, simulated=False, nap_ms=1)
    with Workers() as workers:
        outcome = workers.run(job)
    record = record_of(job, outcome, run_id="id", started=datetime.now(UTC))
    assert BUSY in record.verdict.reasons and record.verdict.grade == "WEAK"
    assert record.monitor["others_cpu_share"]["mean"] == 0.5


def test_a_real_run_is_watched_by_the_real_surroundings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching_module, "Surroundings", Surroundings)
    job = nap_job(steps=200, simulated=False)
    with Workers() as workers:
        monitor = workers.run(job).monitor
    assert monitor["usable_cores"]["mean"] >= 1
    assert 0 <= monitor["others_cpu_share"]["mean"] <= 1
    assert {"cpu_energy_j", "process_cpu_share", "quota_held_share", "cpu_clock_share"} <= set(monitor)


def test_a_quiet_round_does_not_hide_that_others_were_busy_in_another():
    job = replace(nap_job(steps=30), device="cpu")
    outcomes = (measured(monitor={"others_cpu_share": sensed(0.5)}), measured(monitor={"others_cpu_share": sensed(0.1)}))
    verdict = Side("A", job, outcomes).record("id", datetime.now(UTC), ()).verdict
    assert (verdict.grade, verdict.reasons[0]) == ("WEAK", BUSY)
    assert any(fact.startswith("other processes kept 10 % of the cores busy") for fact in verdict.facts)
    assert any(fact.startswith("30 completions counted") for fact in verdict.facts)
