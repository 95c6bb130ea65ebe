"""A setting: what can be turned while it runs, what starts it anew, and which two may be compared."""

from dataclasses import replace

import pytest

from labkit.errors import ExperimentError, MachineError
from labkit.experiments import experiment
from labkit.panel.setting import Setting, comparable
from labkit.schedule import Budget

PIPELINE = experiment("pipeline")
CPU = Setting(PIPELINE, PIPELINE.knobs(), "cpu")
T4 = CPU.on("simulated:t4")


def test_a_live_knob_can_be_turned_while_it_runs():
    assert CPU.why_restart(CPU.turned({"prefetch": 4})) == ""


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (CPU, CPU.turned({"model": "large"}), "model cannot be turned while it runs"),
        (CPU, CPU.turned({"model": "large", "seed": 1, "prefetch": 4}), "model, seed cannot be turned while it runs"),
        (CPU, T4, "simulated T4 instead of CPU threads"),
        (T4, T4.with_figures({"link_h2d_bytes_per_s": 20e9}), "another machine"),
    ],
)
def test_what_starts_it_anew_says_so(before: Setting, after: Setting, why: str):
    assert before.why_restart(after) == why


def test_workers_are_live_with_threads_and_cold_with_processes():
    processes = CPU.turned({"loader": "processes"})
    assert CPU.why_restart(CPU.turned({"workers": 2})) == ""
    assert "workers" in processes.why_restart(processes.turned({"workers": 2}))
    assert "workers" in processes.cold
    assert "workers" not in CPU.cold


def test_a_knob_that_cannot_act_says_why():
    assert "pinned memory cannot act on cpu" in CPU.inert["pinned"]
    assert "pinned" not in T4.inert


def test_labels_say_what_was_measured_and_what_is_a_prediction():
    assert CPU.honest_label == "measured on CPU threads"
    assert T4.honest_label == "simulated T4: a prediction"
    assert "changed: link 20 GB/s" in T4.with_figures({"link_h2d_bytes_per_s": 20e9}).honest_label


def test_changes_of_a_machine_do_not_go_along_to_another():
    assert T4.with_figures({"link_h2d_bytes_per_s": 20e9}).on("simulated:h200").changes == {}


def test_a_real_device_has_no_figures_to_change():
    with pytest.raises(ExperimentError, match="this runs on cpu"):
        CPU.with_figures({"link_h2d_bytes_per_s": 20e9})


def test_a_figure_that_there_is_not_is_refused():
    with pytest.raises(MachineError, match="warp"):
        T4.with_figures({"warp": 1.0})


def test_its_job_is_of_its_device_knobs_and_machine():
    job = T4.turned({"prefetch": 9}).with_figures({"link_h2d_bytes_per_s": 20e9}).job(Budget(steps=5), live=True)
    assert (job.device, job.knobs.prefetch, job.live) == ("simulated:t4", 9, True)
    assert job.machine["link_h2d_bytes_per_s"] == 20e9


def test_words_name_what_differs():
    assert CPU.words() == "the defaults"
    assert CPU.turned({"prefetch": 4}).words() == "prefetch 4"
    assert T4.turned({"prefetch": 4}).words(CPU) == "prefetch 4, on simulated T4"
    assert CPU.words(CPU) == "the same settings"


def test_two_of_a_kind_may_be_compared_and_a_measurement_with_a_prediction_may_not():
    comparable(CPU, CPU.turned({"prefetch": 4}))
    comparable(T4, T4.on("simulated:h200"))
    with pytest.raises(ExperimentError, match="A runs on CPU threads and B on simulated T4"):
        comparable(CPU, T4)
    other = replace(PIPELINE, name="other")
    with pytest.raises(ExperimentError, match="A is of the experiment pipeline and B of other"):
        comparable(CPU, replace(CPU, experiment=other))
