"""A sweep: points joined where they belong together, and nowhere else."""

import pandas as pd
import pytest

from labkit.figures import sweep_figure


def run(
    prefetch: int, throughput: float | None, measured: bool = True, grade: str = "VALID", **more: object
) -> dict[str, object]:
    device = "CPU threads" if measured else "simulated H200"
    row = {"id": f"r{prefetch}", "status": "ok", "device_label": device, "measured": measured, "grade": grade}
    return {**row, "throughput": throughput, "knob.prefetch": prefetch, **more}


def test_a_line_for_each_value_of_the_colour_column_in_order_of_x():
    rows = [run(p, 100.0 * p + w, **{"knob.workers": w}) for w in (1, 2) for p in (4, 0, 2)]
    figure = sweep_figure(pd.DataFrame(rows), "knob.prefetch", "throughput", "knob.workers")
    assert [trace.name for trace in figure.data] == ["workers 1 · CPU threads", "workers 2 · CPU threads"]
    assert list(figure.data[0].x) == [0, 2, 4] and list(figure.data[0].y) == [1, 201, 401]
    assert figure.data[0].mode == "lines+markers"
    assert figure.layout.yaxis.title.text == "throughput, items/s"
    assert list(figure.layout.xaxis.tickvals) == [0, 2, 4]


def test_measured_and_simulated_runs_are_never_joined():
    rows = [run(p, 100.0, measured) for measured in (True, False) for p in (0, 1)]
    solid, dashed = sweep_figure(pd.DataFrame(rows), "knob.prefetch", "throughput").data
    assert (solid.name, solid.line.dash, solid.marker.symbol[0]) == ("CPU threads", "solid", "circle")
    assert (dashed.name, dashed.line.dash, dashed.marker.symbol[0]) == ("simulated H200", "dash", "diamond")
    assert solid.line.color != dashed.line.color


def test_an_invalid_run_is_a_cross_outside_the_line_and_a_weak_one_is_open():
    rows = [run(0, 10.0), run(1, 99.0, grade="INVALID"), run(2, 30.0, grade="WEAK")]
    line, crosses = sweep_figure(pd.DataFrame(rows), "knob.prefetch", "throughput").data
    assert list(line.x) == [0, 2] and list(line.marker.symbol) == ["circle", "circle-open"]
    assert list(crosses.x) == [1] and crosses.marker.symbol[0] == "x-thin-open" and crosses.mode == "markers"


def test_runs_without_the_number_are_left_out_and_counted():
    figure = sweep_figure(
        pd.DataFrame([run(0, 10.0), run(1, None), run(2, 30.0)]), "knob.prefetch", "throughput"
    )
    assert list(figure.data[0].x) == [0, 2]
    assert "1 of 3 runs have no throughput and are not drawn" in figure.layout.title.text


def test_several_runs_at_one_x_are_not_joined():
    figure = sweep_figure(
        pd.DataFrame([run(0, 10.0), run(0, 12.0), run(1, 30.0)]), "knob.prefetch", "throughput"
    )
    assert figure.data[0].mode == "markers"


def test_a_knob_that_is_true_or_false_has_two_places():
    rows = [run(0, 10.0, **{"knob.pinned": True}), run(0, 12.0, **{"knob.pinned": False})]
    figure = sweep_figure(pd.DataFrame(rows), "knob.pinned", "throughput")
    assert list(figure.data[0].x) == ["false", "true"]
    assert figure.layout.xaxis.type == "category"


def test_a_knob_that_spans_a_wide_range_has_a_logarithmic_axis():
    rows = [run(0, 10.0, **{"knob.batch": batch}) for batch in (1, 8, 64)]
    assert sweep_figure(pd.DataFrame(rows), "knob.batch", "throughput").layout.xaxis.type == "log"


def test_times_are_drawn_in_a_unit_that_suits_them():
    rows = [run(0, 1.0, step_interval_p50_ns=17e6), run(1, 1.0, step_interval_p50_ns=6e6)]
    figure = sweep_figure(pd.DataFrame(rows), "knob.prefetch", "step_interval_p50_ns")
    assert list(figure.data[0].y) == [17.0, 6.0]
    assert figure.layout.yaxis.title.text == "step interval p50 (ms)"


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"no column 'knob\.nope' to draw; allowed: id, .*knob\.prefetch"):
        sweep_figure(pd.DataFrame([run(0, 1.0)]), "knob.nope", "throughput")


def test_an_empty_table_says_so():
    frame = pd.DataFrame([run(0, 1.0)]).iloc[:0]
    assert (
        sweep_figure(frame, "knob.prefetch", "throughput").layout.annotations[0].text
        == "no run has both numbers"
    )
