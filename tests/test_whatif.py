"""Answers to what-if: by replay, by knobs, with the measurement beside them; the same in code, sliders, command line and figure."""

import json
from dataclasses import replace

import pytest

import labkit
from labkit import figures
from labkit.errors import ExperimentError, KnobError, MachineError, RunFailed
from labkit.metrics.compare import Ratio
from labkit.metrics.critical_path import critical_path
from labkit.metrics.whatif import Change
from labkit.panel.whatif import SPEEDS, WhatIf, lines, rates
from labkit.result import Compared, Run
from labkit.runner.compare import Comparison
from labkit.whatif import Answer, by_knobs, by_replay, with_measurement


@pytest.fixture(scope="module")
def run() -> Run:
    return labkit.run("pipeline", device="simulated:l4", steps=60, model="large", prefetch=8)


@pytest.fixture
def measured(run: Run) -> Run:
    """The same, as if it had been measured."""
    return Run(replace(run.record, measured=True, device="cpu", device_label="CPU threads"), run.trace)


def compared(run: Run, ratio: Ratio | None) -> Compared:
    ratios = {} if ratio is None else {"throughput": ratio}
    return Compared(run, run, Comparison(ratios, "faster, or not", 5))


def test_without_a_change_everything_is_as_it_was(run: Run):
    answer = by_replay(run, Change())
    assert answer.ratio == 1
    assert answer.error_as_it_was == 0
    assert answer.change == "as it was"
    assert answer.residual is None


def test_the_bound_is_what_the_busiest_lane_would_allow_with_the_change(run: Run):
    before, after = by_replay(run, Change()), by_replay(run, Change(widths={"workers": 4}))
    assert before.busiest is not None and before.busiest[0] == "workers"
    assert after.ratio == pytest.approx(4, rel=0.05)
    for answer in (before, after):
        assert answer.bound is not None
        assert answer.predicted <= answer.bound * (1 + 1e-9)
    assert after.bound == pytest.approx(4 * before.bound, rel=0.06)


def test_of_an_imported_trace_steps_are_counted(run: Run):
    imported = replace(run, record=replace(run.record, experiment="imported", provenance={"file": "trace.json"}))
    answer = by_replay(imported, Change())
    assert (answer.unit, by_replay(run, Change()).unit) == ("steps/s", "items/s")
    assert answer.said(12.0) == "12 steps/s"


def test_where_the_whole_run_is_the_item_its_time_is_told(run: Run):
    answer = replace(by_replay(run, Change()), unit="runs/s")
    assert answer.said(4.0) == "250 ms"


def test_when_the_busiest_lane_takes_no_time_another_is_the_limit(run: Run):
    answer = by_replay(run, Change({"workers": 0.0}))
    assert answer.busiest is not None and answer.busiest[0] != "workers"


def test_a_knob_of_a_prediction_or_of_an_imported_trace_is_refused(run: Run, measured: Run):
    with pytest.raises(ExperimentError, match="is a prediction: its op times cannot predict other settings"):
        by_knobs(run, {"workers": 2})
    imported = Run(replace(measured.record, experiment="imported"), measured.trace)
    with pytest.raises(ExperimentError, match="it has no knobs"):
        by_knobs(imported, {"workers": 2})


def test_a_measurement_stands_beside_the_prediction_with_its_residual(run: Run):
    answer = with_measurement(by_replay(run, Change(widths={"workers": 2})), compared(run, Ratio(1.6, 1.5, 1.7, 5)))
    assert (answer.measured_ratio, answer.low, answer.high) == (1.6, 1.5, 1.7)
    assert answer.residual == pytest.approx(answer.ratio / 1.6 - 1)
    assert f"residual {100 * answer.residual:+.1f} %" in lines(answer)[-1]
    rows = rates(answer)
    assert [row.words for row in rows] == ["simulated", "the model as it was", "bound with it", "predicted with it", "measured with it"]
    assert (rows[-1].value, rows[-1].low, rows[-1].high) == pytest.approx([ratio * answer.measured for ratio in (1.6, 1.5, 1.7)])


def test_a_comparison_without_an_interval_is_no_measurement(run: Run):
    answer = with_measurement(by_replay(run, Change()), compared(run, None))
    assert answer.failed
    assert lines(answer)[-1] == "not measured: faster, or not"
    assert [row.sort for row in rates(answer)].count("measured") == 0


def test_a_prediction_is_never_drawn_as_a_measurement(run: Run, measured: Run):
    assert [row.sort for row in rates(by_replay(run, Change()))] == ["predicted", "predicted", "bound", "predicted"]
    assert [row.sort for row in rates(by_replay(measured, Change()))] == ["measured", "predicted", "bound", "predicted"]
    symbols = {trace.y[0]: trace.marker.symbol for trace in figures.one_axis(rates(by_replay(measured, Change())), measured.shown("A"), "items/s").data}
    assert symbols["measured"] == "circle"
    assert symbols["predicted with it"] == "circle-open"


def test_the_answer_is_plain_data(run: Run):
    data = json.loads(json.dumps(by_replay(run, Change({"copy": 0.5})).as_dict()))
    assert data["change"] == "copy in 0.5 of its time"
    assert data["predicted_ratio"] == data["predicted_per_s"] / data["as_it_was_per_s"]
    assert data["simulated"] is True


# ---- the sliders, without a page -----------------------------------------------------------------------------


def sliders(what_if: WhatIf) -> Answer:
    return what_if.answer


def test_a_slider_changes_the_answer_and_as_it_was_brings_it_back(run: Run):
    what_if = WhatIf(run)
    what_if._speeds["decode+augment+normalise"].value = dict(SPEEDS)["2×"]
    assert sliders(what_if).change == "decode+augment+normalise in 0.5 of its time"
    what_if._wide["workers"].value = 3
    what_if._speeds["host program"].value = 0.0
    assert sliders(what_if).change == "decode+augment+normalise in 0.5 of its time, workers 3 wide, no host time between ops"
    what_if.reset()
    assert sliders(what_if).change == "as it was"
    assert what_if._wide["workers"].value == 1


def test_in_code_it_answers_and_says_so(run: Run):
    what_if = WhatIf(run)
    assert what_if.set(widths={"workers": 2}).ratio > 1.5
    assert repr(what_if).startswith("workers 2 wide: ")
    with pytest.raises(ExperimentError, match="which is no op or lane of this trace"):
        what_if.set(scale={"nothing": 0.5})
    assert repr(what_if).startswith("workers 2 wide: "), "a wrong question changes nothing"


def test_a_lane_whose_width_is_a_knob_is_offered_to_be_measured(measured: Run):
    what_if = WhatIf(measured)
    what_if._wide["workers"].value = 2
    assert (what_if._knob.value, what_if._value.value) == ("workers", "2")
    assert "Measure makes it so for real" in what_if._message.value


def test_what_cannot_be_asked_is_said_and_the_sliders_go_on(measured: Run, monkeypatch: pytest.MonkeyPatch):
    what_if = WhatIf(measured)
    what_if._knob.value, what_if._value.value = "workers", "many"
    what_if._asked(measure=False)
    assert "many" in what_if._message.value or "calibrate" in what_if._message.value
    what_if._wide["workers"].value = 2
    assert what_if.answer.change == "workers 2 wide"


def test_a_run_that_cannot_be_asked_is_refused(run: Run):
    with pytest.raises(RunFailed, match="has no trace to replay"):
        WhatIf(Run(run.record, None))
    with pytest.raises(RunFailed, match="cancelled"):
        WhatIf(Run(replace(run.record, status="cancelled", reason="stopped"), run.trace))


def test_knobs_of_a_measured_run_are_asked_of_this_machine(measured: Run):
    with pytest.raises((MachineError, KnobError, RunFailed)):
        WhatIf(measured).knobs(workers="many")


# ---- the path on the timeline --------------------------------------------------------------------------------


def test_the_critical_path_is_drawn_through_the_slices_on_it(run: Run):
    path = critical_path(run.trace, 8)
    plain, drawn = figures.timeline(run.shown("B")), figures.timeline(run.shown("B"), path=path)
    assert [trace.name for trace in drawn.data[:-1]] == [trace.name for trace in plain.data]
    line = drawn.data[-1]
    assert line.name == "critical path"
    assert list(line.x) == sorted(line.x), "it goes forward in time"
    assert line.x[0] >= drawn.layout.xaxis.range[0] and line.x[-1] <= drawn.layout.xaxis.range[1]
    rows = drawn.layout.yaxis.ticktext
    assert {rows[row] for row in line.y} >= {"workers"}, "loading is the bottleneck"
    assert all(trace.opacity < 1 for trace in drawn.data[:-1])
