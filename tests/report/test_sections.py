"""What the page tells of each run: settings, provenance, sensors, and the machine's figures with their sources."""

from dataclasses import replace

import pytest

from labkit.figures import Shown
from labkit.monitor.alerts import Rule, Value, evaluate
from labkit.report.sections import differing_knobs, figure_text, run_sections
from tests.report.recorded import record_of


def test_only_the_knobs_that_differ_are_listed(a: Shown, b: Shown):
    rows = differing_knobs([a, b], [record_of(a), record_of(b)])
    assert rows == [["knob", "A\nmeasured", "B\nmeasured"], ["prefetch", "0", "4"]]


def test_a_knob_that_one_run_lacks_is_absent_there(a: Shown, b: Shown):
    rows = differing_knobs([a, b], [record_of(a), record_of(b, dtype="bf16", rate=None)])
    assert rows[2:] == [["dtype", "–", "bf16"], ["rate", "–", "none"]]


def test_runs_of_equal_knobs_have_no_such_table(a: Shown):
    assert differing_knobs([a, a], [record_of(a), record_of(a)]) == []


def test_a_section_tells_where_the_run_came_from(a: Shown):
    [section] = run_sections([a], [record_of(a)])
    facts = dict(section.facts)
    assert facts["device"] == "CPU threads (cpu)"
    assert facts["wall time"] == "1.23 s"
    assert facts["budget: seconds"] == "none"
    assert facts["host.name"] == "bench-7"
    assert ("gpu.reason", "no GPU here") in section.sensors
    assert section.bottleneck == a.summary.bottleneck


def test_figures_of_the_machine_carry_their_source(predicted_b: Shown):
    [section] = run_sections([predicted_b], [record_of(predicted_b)])
    [(meaning, value, source)] = section.figures
    assert (meaning, value) == ("device memory bandwidth, peak", "4.8 TB/s")
    assert source.startswith("data sheet")


def test_a_failed_run_has_a_section_with_its_reason(a: Shown):
    failed = replace(record_of(a), status="failed", reason="out of memory: 3 GiB free", metrics={})
    section = run_sections([], [failed])[0]
    assert section.status == "failed: out of memory: 3 GiB free"
    assert section.title == f"pipeline, {failed.id}"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("link_latency_ns", 1500, "1.5 µs"),
        ("decode_pixels_per_s", 2.5e7, "25 Mpixels/s"),
        ("gpu_flop_per_s", 9.89e14, "989 Tflop/s"),
        ("gpu_memory_bytes", 141 * 2**30, "141 GiB"),
        ("hbm_share", 0.85, "85 %"),
        ("power_w", 700, "700 W"),
        ("price_usd_per_hour", 3.5, "3.50 USD/h"),
        ("cores", 16, "16"),
    ],
)
def test_a_machines_figure_has_its_unit(name: str, value: float, text: str):
    assert figure_text(name, value) == text


def test_alerts_that_fired_or_were_not_evaluated_come_first_and_all_are_among_the_facts(a: Shown):
    stall, memory = Rule("pipeline_stall", "above", 1, 2, "%"), Rule("memory_available_bytes", "below", 2, 1, "GB")
    values = {"pipeline_stall": Value(0.5, "share"), "memory_available_bytes": Value(3e9, "bytes")}
    alerts = evaluate([stall, memory, Rule("gpu_power_w", "above", 1, 2)], values)
    [section] = run_sections([a], [replace(record_of(a), alerts=tuple(alert.as_dict() for alert in alerts))])
    assert section.notes == (
        "critical alert: pipeline_stall is 50 %, above the critical limit of 2 %",
        "note: gpu_power_w is not evaluated: the run gave no such value",
        "pinned cannot act on cpu",
    )
    facts = dict(section.facts)
    assert facts["alert: memory_available_bytes"] == "memory_available_bytes is 3 GB, not below the warning limit of 2 GB"
    assert facts["alert: pipeline_stall"].startswith("pipeline_stall is 50 %")
