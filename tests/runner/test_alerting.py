"""The values that rules are checked against come from the metrics and the sensors; what is absent keeps its reason."""

from dataclasses import replace

import pytest

from labkit.metrics.summary import Summary, summarize
from labkit.monitor import Reading, Sampler
from labkit.monitor.alerts import Rule, Value, evaluate
from labkit.monitor.rule import metric_units
from labkit.runner.alerting import alerts_of, values_of, with_alerts
from labkit.runner.record import RunRecord
from tests.metrics.virtual_runs import pipeline, run

NOT_ON_A_GPU = "the run was not on a GPU, so none was watched"


def summary_of(steps: int = 40, measured: bool = True) -> Summary:
    """A loader-bound pipeline whose compute lane is busy for 900 of 1000 ns, taken for a measurement."""
    trace = run(lambda device: pipeline(device, steps, prefetch=2))
    return replace(summarize(trace, warmup_steps=10), measured=measured)


def sensed(mean: float | None, unit: str = "share", reason: str | None = None, highest: float | None = None) -> dict:
    """The summary of one sensor."""
    return {"unit": unit, "n": 3, "min": mean, "mean": mean, "max": highest, "last": mean, "reason": reason}


HOST = {"process_cpu_share": sensed(0.5), "memory_available_bytes": sensed(3e9, "bytes")}


@pytest.fixture
def record() -> RunRecord:
    return RunRecord(
        id="20261130-231502-pipeline-3f2a", experiment="pipeline", status="ok", reason="", knobs={}, device="cpu",
        device_label="CPU threads", measured=True, budget={}, started_at="2026-11-30T23:15:02+00:00", wall_s=1.0,
        metrics=summary_of().as_dict(), monitor=HOST,
    )  # fmt: skip


def test_every_metric_that_a_rule_may_name_has_a_value_or_a_reason():
    for summary, monitor in ((summary_of(), HOST), (None, HOST), (summary_of(), {}), (None, {}), (summary_of(measured=False), {})):
        values = values_of(summary, monitor)
        assert set(values) >= set(metric_units())
        assert all((value.value is None) == bool(value.reason) for value in values.values())
        assert {name: values[name].unit for name in metric_units()} == metric_units()


def test_the_metrics_of_a_run_by_the_names_of_rules():
    values = values_of(summary_of(), HOST)
    assert values["throughput"] == Value(32 / 1000e-9, "items/s")
    assert values["step_interval_p95"] == Value(1000.0, "ns")
    assert values["batch_age_p50"] == Value(2000.0, "ns")
    assert values["utilization_compute"] == Value(0.9, "share")
    assert values["bound_efficiency"].value == values["utilization_workers"].value == 29 / 30
    assert values["overlap"].value == pytest.approx(29 / 30)


def test_the_pipeline_s_stall_is_what_the_compute_lane_was_not_busy():
    assert values_of(summary_of(), HOST)["pipeline_stall"] == Value(pytest.approx(0.1), "share")


def test_the_gpu_s_utilization_is_never_the_compute_lane_s():
    values = values_of(summary_of(), HOST)
    assert values["gpu_utilization"] == Value(None, "share", NOT_ON_A_GPU)
    on_gpu = values_of(summary_of(), HOST | {"gpu_utilization": sensed(0.35)})
    assert (on_gpu["gpu_utilization"].value, on_gpu["utilization_compute"].value) == (0.35, 0.9)


def test_of_a_sensor_the_mean_is_taken_and_of_what_counts_up_the_last_count():
    monitor = HOST | {"gpu_power_w": sensed(350.0, "W", highest=500.0), "gpu_energy_j": sensed(40.0, "J", highest=80.0)}
    values = values_of(summary_of(), monitor)
    assert values["process_cpu_share"] == Value(0.5, "share")
    assert values["gpu_power_w"] == Value(350.0, "W")
    assert values["gpu_energy_j"] == Value(80.0, "J")


def test_a_sensor_that_gave_no_value_keeps_its_reason_and_one_that_gave_some_has_none():
    monitor = HOST | {"gpu_utilization": sensed(None, reason="Not Supported"), "gpu_power_w": sensed(9.0, "W", "once lost")}
    values = values_of(summary_of(), monitor)
    assert values["gpu_utilization"] == Value(None, "share", "Not Supported")
    assert values["gpu_power_w"] == Value(9.0, "W")


def test_a_percentile_of_too_few_samples_is_not_evaluated():
    values = values_of(summary_of(), HOST)
    [alert] = evaluate([Rule("step_interval_p99", "above", 1, 2, "ns")], values)
    assert alert.words == "step_interval_p99 is not evaluated: p99 needs at least 100 samples; there are 30"


def test_a_lane_that_the_run_did_not_have_is_named():
    values = values_of(summary_of(), HOST)
    assert values["utilization_disk"].reason == "the run had no lane 'disk'"
    [second] = evaluate([Rule("utilization_compute1", "below", 0.5, 0.1)], values)
    assert second.reason == "the run had no lane 'compute1'"
    without = replace(summary_of(), utilization={})
    assert values_of(without, HOST)["pipeline_stall"].reason == "the run had no lane 'compute'"


def test_a_compute_lane_without_a_share_gives_no_stall_but_its_reason():
    summary = summary_of()
    gone = replace(summary.utilization["compute"], value=None, reason="it did not exist in the window")
    values = values_of(replace(summary, utilization={"compute": gone}), HOST)
    assert values["pipeline_stall"] == Value(None, "share", "it did not exist in the window")


def test_of_a_simulated_run_no_rule_is_evaluated():
    rules = [Rule("pipeline_stall", "above", 0.01, 0.02), Rule("gpu_utilization", "below", 0.9, 0.8)]
    alerts = evaluate(rules, values_of(summary_of(measured=False), {}))
    assert {alert.reason for alert in alerts} == {"simulated: an alert is about what was measured"}


def test_a_run_that_left_nothing_says_so():
    values = values_of(None, {})
    assert values["throughput"].reason == "the run has left no metrics"
    assert values["process_cpu_share"].reason == values["gpu_power_w"].reason == "the monitor has left no readings"


def test_the_sampler_s_own_summary_is_understood_live():
    class Host:
        name = "host"

        def read(self):
            return [Reading("process_cpu_share", 0.25, "share of the cores that it may use")]

        def close(self):
            pass

    with Sampler([Host()], period_s=3600) as sampler:
        assert values_of(None, sampler.summary())["process_cpu_share"].value is None
    values = values_of(None, sampler.summary())
    assert values["process_cpu_share"] == Value(0.25, "share")
    assert values["monitor_cpu_share"].value is not None


def test_a_record_is_given_the_alerts_of_its_own_numbers(record: RunRecord):
    rules = [Rule("pipeline_stall", "above", 4, 8, "%"), Rule("gpu_power_w", "above", 600, 700)]
    checked = with_alerts(record, rules)
    stall, power = alerts_of(checked)
    assert (stall.level, stall.counts) == ("critical", True)
    assert stall.words == "pipeline_stall is 10 %, above the critical limit of 8 %"
    assert (power.level, power.reason) == (None, NOT_ON_A_GPU)
    assert checked.alerts == (stall.as_dict(), power.as_dict())
    assert replace(checked, alerts=()) == record


def test_a_record_without_metrics_has_alerts_that_were_not_evaluated(record: RunRecord):
    failed = replace(record, status="failed", metrics={}, monitor={})
    [alert] = alerts_of(with_alerts(failed, [Rule("throughput", "below", 10, 1)]))
    assert alert.words == "throughput is not evaluated: the run has left no metrics"
    assert with_alerts(failed, []) == failed
