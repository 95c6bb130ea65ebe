"""A, B and the guess: what is kept of runs, what is compared, and what a result is credited to."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit import lab
from labkit.errors import ExperimentError, StoreError
from labkit.store import save_run
from tests.panel.listening import Heard, Make, worker_pid

# ---- A, B and the guess -----------------------------------------------------------------------------------


def test_pinned_at_rest_the_last_run_is_a(resting: Heard):
    result = resting.ran(0.5)
    resting.session.pin()
    a = resting.session.state.a
    assert (a.shown.label, a.shown.summary) == ("A", result.b.summary)
    assert a.run is resting.session.last_run


def test_pinned_after_a_knob_was_turned_the_setting_alone_is_a(resting: Heard):
    resting.ran(0.5)
    resting.session.turn({"prefetch": 0})
    resting.session.pin()
    assert resting.session.state.a.shown is None
    assert resting.session.state.a.setting.knobs.prefetch == 0


def test_pinned_while_it_runs_what_is_seen_now_is_a(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running(10)
    resting.session.pin()
    assert resting.session.state.a.shown.summary.throughput.value > 0
    resting.session.turn({"prefetch": 0})
    resting.running(10)
    resting.session.stop()
    resting.idle()
    result = resting.listener.results[-1]
    assert result.a.summary.throughput.value > result.b.summary.throughput.value


def test_a_and_b_are_measured_in_turns(resting: Heard):
    resting.session.turn({"prefetch": 0})
    resting.session.pin()
    resting.session.turn({"prefetch": 4})
    resting.session.compare()
    resting.idle()
    result = resting.listener.results[-1]
    assert result.compared.comparison.rounds == 5
    assert result.compared.comparison.ratios["throughput"].value > 1
    assert resting.listener.phases[-2:] == ["comparing", "idle"]
    assert resting.session.state.message.words == result.compared.comparison.sentence
    assert {state.share for state in resting.listener.states if state.phase == "comparing"} > {0.0}


def test_a_view_is_shown_of_the_last_run_at_once_and_taken_away_again(resting: Heard):
    resting.ran(0.5)
    resting.session.view("mistakes", True)
    resting.session.view("why", True)
    assert resting.session.state.views == ("why", "mistakes")
    assert resting.listener.results[-1].views == ("why", "mistakes")
    assert resting.listener.results[-1].run is resting.session.last_run
    resting.session.view("mistakes", False)
    assert resting.listener.results[-1].views == ("why",)
    with pytest.raises(ExperimentError, match="there is no view 'everything'; there are: why, what if, mistakes"):
        resting.session.view("everything", True)


def test_a_measurement_and_a_prediction_are_not_measured_against_each_other(resting: Heard):
    resting.session.pin()
    resting.session.device("cpu")
    with pytest.raises(ExperimentError, match="their ratio would say nothing"):
        resting.session.compare()


def test_a_guess_is_shown_beside_the_prediction(resting: Heard):
    resting.session.turn({"prefetch": 0})
    resting.session.pin()
    resting.session.turn({"prefetch": 4})
    resting.session.guess(1.5, "workers")
    resting.session.compare()
    resting.idle()
    result = resting.listener.results[-1]
    assert (result.guess.ratio, result.guess.bottleneck) == (1.5, "workers")
    assert result.predicted.ratio == pytest.approx(result.compared.comparison.ratios["throughput"].value, rel=0.01)
    assert result.measured.ratio is None
    assert "simulated" in result.measured.reason


def test_a_stored_run_becomes_a_with_its_settings(make: Make, tmp_path: Path):
    stored = lab.run("pipeline", device="simulated:t4", steps=50, out=tmp_path, prefetch=7, image_size=32, batch_size=4)
    heard = make("simulated:h200", out=tmp_path)
    heard.session.pin_stored(stored.record.id)
    a = heard.session.state.a
    assert (a.setting.device, a.setting.knobs.prefetch) == ("simulated:t4", 7)
    assert a.shown.summary.throughput.value == stored.summary.throughput.value


# ---- what a result is credited to -------------------------------------------------------------------------


def test_a_knob_turned_after_stop_is_not_what_the_run_is_credited_to(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running(8)
    resting.session.stop()
    resting.session.turn({"prefetch": 9})
    resting.idle()
    resting.session.pin()
    assert resting.session.state.a.setting.knobs.prefetch == 9
    assert resting.session.state.a.shown is None, "nothing has run with prefetch 9"


def test_a_stored_run_of_a_changed_machine_becomes_a_with_its_changes(make: Make, tmp_path: Path):
    heard = make("simulated:h200", out=tmp_path)
    heard.session.machine("link_h2d_bytes_per_s", 10e9)
    heard.session.machine("cores", 1)
    heard.ran(0.5)
    stored = heard.session.last_run
    heard.session.reset()
    heard.session.pin_stored(stored.record.id)
    setting = heard.session.state.a.setting
    assert (setting.machine["link_h2d_bytes_per_s"], setting.machine["cores"]) == (10e9, 1)
    assert setting.machine.label == stored.record.machine["label"]


def test_a_stored_run_of_another_workload_of_the_same_name_is_refused(make: Make, tmp_path: Path):
    run = lab.predict("pipeline", on="t4", steps=20, image_size=32, batch_size=4)
    save_run(tmp_path, replace(run.record, content="another"), run.trace)
    heard = make("simulated:t4", out=tmp_path)
    with pytest.raises(ExperimentError, match="a workload of the same name with other data or another model"):
        heard.session.pin_stored(run.record.id)


def test_measure_stops_what_is_running_first(resting: Heard):
    resting.session.turn({"prefetch": 0})
    resting.session.pin()
    resting.session.turn({"prefetch": 4})
    resting.session.run_for(None)
    resting.session.run()
    resting.running()
    resting.session.compare()
    resting.listener.until(lambda: resting.session.state.phase == "comparing")
    resting.idle()
    assert resting.listener.results[-1].compared is not None


def test_a_run_that_cannot_be_saved_is_told_and_still_shown(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    heard = make("simulated:t4", out=tmp_path)

    def full(run: Any, out: Any) -> Any:
        raise StoreError("the disk is full")

    monkeypatch.setattr(lab, "saved", full)
    monkeypatch.setattr(lab, "ended_run", lambda job, outcome, started, out, notes=(), rules=(): original(job, outcome, started, rules))
    result = heard.ran(0.5)
    assert result.b is not None
    assert heard.session.last_run.path is None
    assert "the disk is full" in heard.session.state.message.words


def original(job: Any, outcome: Any, started: Any, rules: Any) -> Any:
    """What `lab.ended_run` makes of an outcome, unsaved."""
    from labkit.result import Run
    from labkit.runner.measure import record_of
    from labkit.store import new_run_id

    return Run(record_of(job, outcome, run_id=new_run_id("pipeline", started), started=started), outcome.trace)


def test_what_a_killed_run_had_shown_is_still_shown_and_is_no_result(make: Make):
    heard = make("cpu")
    heard.session.run()
    heard.running(12)
    os.kill(worker_pid(heard), signal.SIGKILL)
    heard.idle()
    result = heard.listener.results[-1]
    assert result.b.summary.throughput.value > 0
    assert result.verdict.grade == "INVALID"
    assert heard.session.last_run is None


def test_a_listener_that_fails_does_not_end_the_run(make: Make, monkeypatch: pytest.MonkeyPatch):
    heard = make("simulated:t4")
    monkeypatch.setattr(heard.listener, "on_dials", lambda dials: 1 / 0)
    assert heard.ran(0.5).b is not None
    assert "ZeroDivisionError" in heard.session.errors[-1]


def test_a_run_that_was_cancelled_is_no_result(make: Make):
    heard = make("cpu")
    heard.session.run()
    heard.running(12)
    heard.session.workers.cancel()
    heard.idle()
    assert heard.listener.results[-1].verdict.grade == "INVALID"
    assert heard.session.last_run is None


def test_what_watching_costs_is_told_beside_the_sensors(make: Make):
    heard = make("cpu")
    heard.ran(1.0)
    dial = heard.listener.dials[-1][-1]
    assert (dial.name, dial.unit) == ("watching_cpu_share", "share of one core")
    assert 0 <= dial.value < 0.5
