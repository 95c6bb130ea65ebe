"""A session on the simulated device and on the cpu: what people do in a panel, without a browser."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import pytest

from labkit import lab
from labkit.errors import ExperimentError, KnobError, MachineError, NoSuchDevice, StoreError
from labkit.monitor.alerts import Rule
from labkit.store import list_runs
from tests.panel.listening import Heard

Make = Callable[..., Heard]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Heard] = []

    def heard(*args: Any, **knobs: Any) -> Heard:
        made.append(Heard(*args, **knobs))
        return made[-1]

    yield heard
    for each in made:
        each.session.close()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Heard]:
    """One that stays warm, for tests that leave it at rest."""
    heard = Heard("simulated:t4")
    yield heard
    heard.session.close()


@pytest.fixture
def resting(simulated: Heard) -> Heard:
    simulated.session.stop()
    simulated.idle()
    simulated.session.reset()
    simulated.listener.states.clear()
    simulated.listener.results.clear()
    return simulated


def worker_pid(heard: Heard) -> int:
    return next(iter(heard.session.workers._by_setup.values())).pid


# ---- run and stop -----------------------------------------------------------------------------------------


def test_a_run_goes_from_starting_to_running_to_idle_and_leaves_a_result(resting: Heard):
    result = resting.ran(0.5)
    assert resting.listener.phases == ["idle", "starting", "running", "idle"]
    assert result.b.summary.throughput.value > 0
    assert resting.session.last_run.record.status == "ok"
    assert result.b.device == "simulated T4"


def test_what_it_ends_with_says_that_the_strip_has_stopped(resting: Heard):
    resting.ran(0.5)
    assert [frame.running for frame in resting.listener.frames[-2:]] == [True, False]


def test_run_while_it_runs_changes_nothing(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running()
    frames = len(resting.listener.frames)
    resting.session.run()
    resting.running()
    assert resting.session.state.phase == "running"
    assert len(resting.listener.frames) > frames
    resting.session.stop()
    assert resting.idle().message is None
    assert resting.listener.phases == ["idle", "starting", "running", "stopping", "idle"]


def test_stopped_by_hand_it_has_a_result(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running(8)
    resting.session.stop()
    resting.idle()
    assert resting.session.last_run.record.status == "ok"
    assert resting.listener.results[-1].run is resting.session.last_run


# ---- turning ----------------------------------------------------------------------------------------------


def test_a_live_knob_acts_on_the_run_and_leaves_a_mark(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running(6)
    resting.session.turn({"prefetch": 0})
    resting.listener.until(lambda: resting.listener.frames[-1].marks)
    assert resting.listener.frames[-1].marks[0].words == "prefetch 2 → 0"
    resting.session.stop()
    resting.idle()
    assert resting.listener.phases.count("starting") == 1


def test_the_result_of_a_toggled_run_is_of_the_steps_since_the_toggle(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running(6)
    resting.session.turn({"prefetch": 0})
    resting.running(12)
    resting.session.stop()
    resting.idle()
    shown = resting.listener.results[-1].b
    alone = lab.predict("pipeline", on="t4", steps=100, image_size=32, batch_size=4, prefetch=0)
    assert shown.summary.throughput.value == pytest.approx(alone.summary.throughput.value, rel=0.1)


def test_a_knob_turned_while_it_starts_acts(make: Make):
    heard = make("simulated:t4")
    heard.session.run()
    heard.session.turn({"prefetch": 0})
    heard.running(5)
    heard.session.stop()
    heard.idle()
    run = heard.session.last_run
    assert run.record.knobs["prefetch"] == 0 or [mark.knob for mark in run.trace.marks] == ["prefetch"]


def test_a_cold_knob_starts_the_run_anew_and_says_so(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running()
    resting.session.turn({"image_size": 48})
    assert resting.session.state.words == "image_size cannot be turned while it runs: the run is started anew"
    resting.listener.until(lambda: resting.listener.phases.count("running") == 2)
    resting.running(8)
    resting.session.stop()
    resting.idle()
    assert resting.session.last_run.record.knobs["image_size"] == 48


def test_fifty_turns_of_a_cold_knob_in_a_second_start_at_most_two_runs_and_the_last_value_wins(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running()
    for size in range(32, 82):
        resting.session.turn({"image_size": size})
        sleep(0.02)
    resting.listener.until(lambda: resting.listener.frames[-1].running and resting.session.state.phase == "running")
    resting.running(8)
    resting.session.stop()
    resting.idle()
    assert resting.listener.phases.count("running") <= 3, "the first run, and at most two more"
    assert resting.session.last_run.record.knobs["image_size"] == 81


def test_fifty_moves_of_a_machine_slider_start_at_most_two_runs_and_the_last_value_wins(resting: Heard):
    resting.session.run_for(None)
    resting.session.run()
    resting.running()
    for rate in range(10, 60):
        resting.session.machine("link_h2d_bytes_per_s", rate * 1e9)
        sleep(0.02)
    resting.listener.until(lambda: "59 GB/s" in resting.listener.frames[-1].label)
    resting.running(8)
    resting.session.stop()
    resting.idle()
    assert resting.listener.phases.count("running") <= 3
    assert resting.session.last_run.record.machine["figures"]["link_h2d_bytes_per_s"]["value"] == 59e9


def test_a_preset_turns_its_knobs_and_keeps_the_size_of_the_data(resting: Heard):
    resting.session.preset("naive")
    knobs = resting.session.state.setting.knobs
    assert (knobs.prefetch, knobs.loader, knobs.image_size) == (0, "inline", 32)
    resting.session.preset("overlapped")
    knobs = resting.session.state.setting.knobs
    assert (knobs.prefetch, knobs.loader, knobs.log_sync, knobs.image_size) == (4, "threads", False, 32)


def test_reset_goes_back_to_what_it_began_with(resting: Heard):
    first = resting.session.state.setting
    resting.session.turn({"prefetch": 9})
    resting.session.device("simulated:h200")
    resting.session.machine("link_h2d_bytes_per_s", 20e9)
    resting.session.pin()
    resting.session.guess(2.0, "compute")
    resting.session.reset()
    state = resting.session.state
    assert (state.setting, state.a, state.guess) == (first, None, None)


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda session: session.turn({"prefetch": 65}), KnobError, "0 to 64"),
        (lambda session: session.turn({"speed": 1}), KnobError, "there is no knob 'speed'"),
        (lambda session: session.device("simulated:abacus"), MachineError, "there is no machine 'abacus'"),
        (lambda session: session.device("cuda:77"), NoSuchDevice, "there"),
        (lambda session: session.preset("fast"), ExperimentError, "naive, overlapped"),
        (lambda session: session.machine("warp", 9.0), MachineError, "warp"),
        (lambda session: session.run_for(-1.0), ExperimentError, "seconds=-1.0"),
        (lambda session: session.compare(), ExperimentError, "nothing is pinned as A"),
        (lambda session: session.pin_stored("nobody"), StoreError, "nobody|no runs folder"),
    ],
)
def test_what_is_not_allowed_is_refused_and_changes_nothing(resting: Heard, act: Any, error: type, words: str):
    before = resting.session.state
    with pytest.raises(error, match=words):
        act(resting.session)
    assert resting.session.state == before


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
    assert {state.share for state in resting.listener.states if state.phase == "comparing"} > {0.0}


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


# ---- on the cpu -------------------------------------------------------------------------------------------


def test_on_the_cpu_runs_are_saved_and_dials_are_read(make: Make, tmp_path: Path):
    heard = make("cpu", out=tmp_path)
    heard.ran(1.0)
    assert [stored.record.status for stored in list_runs(tmp_path)] == ["ok"]
    cpu = next(dial for dial in heard.listener.dials[-1] if dial.name == "machine_cpu_share")
    gpu = next(dial for dial in heard.listener.dials[-1] if dial.name == "gpu_utilization")
    assert cpu.value is not None
    assert (gpu.value, bool(gpu.reason)) == (None, True)


def test_an_alert_fires_in_the_panel_while_it_runs_and_in_the_record(make: Make):
    heard = make("cpu", rules=[Rule("throughput", "below", warning=1e12, critical=1e9)])
    heard.session.run()
    heard.running(3)
    heard.listener.until(lambda: heard.listener.results)
    heard.session.check(heard.listener.results[-1].part.shown("B").summary)
    assert [alert.level for alert in heard.session.state.alerts] == ["critical"]
    heard.session.stop()
    heard.idle()
    assert [alert["level"] for alert in heard.session.last_run.record.alerts] == ["critical"]
    assert [alert.level for alert in heard.session.state.alerts] == ["critical"]


def test_a_killed_worker_is_told_and_the_next_run_works(make: Make):
    heard = make("cpu")
    heard.session.run()
    heard.running()
    os.kill(worker_pid(heard), signal.SIGKILL)
    message = heard.idle().message
    assert (message.level, "SIGKILL" in message.words) == ("error", True)
    assert "Run" in message.what_to_do
    assert heard.ran(0.5).b is not None
    assert heard.session.state.message is None


def test_closing_while_it_runs_leaves_no_process(make: Make):
    heard = make("cpu")
    heard.session.run()
    heard.running()
    worker = psutil.Process(worker_pid(heard))
    before = [worker, *worker.children(recursive=True)]
    heard.session.close()
    gone, alive = psutil.wait_procs(before, timeout=30)
    assert gone
    assert not alive
    heard.session.close()


def test_data_that_is_not_there_is_told(make: Make):
    heard = make("cpu", data="/nowhere/at/all")
    heard.session.run()
    message = heard.idle().message
    assert message.level == "error"
    assert "/nowhere/at/all" in message.words


def test_an_unexpected_error_is_told_and_kept_with_its_traceback(make: Make, monkeypatch: pytest.MonkeyPatch):
    heard = make("simulated:t4")
    monkeypatch.setattr(lab, "writable", lambda out: 1 / 0)
    heard.session.run()
    message = heard.idle().message
    assert "ZeroDivisionError" in message.words
    assert "panel.errors" in message.what_to_do
    assert "Traceback" in heard.session.errors[-1]


def test_two_sessions_take_turns(make: Make):
    first, second = make("simulated:t4"), make("simulated:t4")
    first.session.run()
    first.running()
    second.session.run()
    second.listener.until(lambda: second.session.state.phase == "waiting")
    assert "another panel" in second.session.state.words
    first.session.stop()
    second.running()
    second.session.stop()
    second.idle()
    first.idle()


def test_commands_from_many_threads_leave_it_usable(resting: Heard):
    session = resting.session

    def press(number: int) -> None:
        for step in range(number, number + 10):
            turn = partial(session.turn, {"prefetch": step % 8})
            (session.run, session.stop, session.pin, turn)[step % 4]()

    threads = [threading.Thread(target=press, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.stop()
    resting.idle()
    assert session.errors == []
    assert resting.ran(0.4).b is not None


def test_a_machine_preset_changes_the_figures_that_go_together(resting: Heard):
    resting.session.machine_preset("NVLink-C2C")
    machine = resting.session.state.setting.machine
    assert (machine["link_h2d_bytes_per_s"], machine["link_d2h_bytes_per_s"]) == (375e9, 297e9)
    with pytest.raises(MachineError, match="there is no machine preset 'PCIe 9'; there are: PCIe 3 ×16, "):
        resting.session.machine_preset("PCIe 9")


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
    from dataclasses import replace

    from labkit.store import save_run

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
