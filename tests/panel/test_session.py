"""A session on the simulated device and on the cpu: what people do in a panel, without a browser."""

import os
import signal
import threading
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
from tests.panel.listening import Heard, Make, worker_pid

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


# ---- on the cpu -------------------------------------------------------------------------------------------


def test_on_the_cpu_runs_are_saved_and_dials_are_read(make: Make, tmp_path: Path):
    heard = make("cpu", out=tmp_path, pinned=False, image_size=32)
    heard.ran(1.0)
    [stored] = list_runs(tmp_path)
    assert stored.record.status == "ok"
    assert "pinned: pinned memory cannot act on cpu: host and device memory are the same here" in stored.record.notes
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
