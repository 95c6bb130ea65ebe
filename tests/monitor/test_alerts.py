"""What rules say of values: fired, ok, or not evaluated; in words that tell a value from its limit."""

import json
import subprocess
import sys

import pytest

from labkit.monitor.alerts import Alert, Rule, Value, evaluate

STALL = Rule("pipeline_stall", "above", 10, 20, "%")


def of(rule: Rule, value: float | None, unit: str = "share", reason: str | None = None) -> Alert:
    [alert] = evaluate([rule], {rule.metric: Value(value, unit, reason)})
    return alert


def test_an_alert_in_full():
    assert of(STALL, 0.23) == Alert(
        metric="pipeline_stall",
        level="critical",
        value=0.23,
        unit="share",
        limit=0.2,
        words="pipeline_stall is 23 %, above the critical limit of 20 %",
        reason=None,
        counts=True,
    )


def test_a_warning_names_the_limit_of_warnings():
    alert = of(STALL, 0.123)
    assert (alert.level, alert.limit) == ("warning", 0.1)
    assert alert.line == "warning alert: pipeline_stall is 12.3 %, above the warning limit of 10 %"


def test_what_is_ok_says_how_far_it_may_go():
    alert = of(STALL, 0.04)
    assert (alert.level, alert.fired, alert.counts) == ("ok", False, False)
    assert alert.line == "no alert: pipeline_stall is 4 %, not above the warning limit of 10 %"


def test_what_is_absent_neither_fires_nor_is_ok():
    alert = of(STALL, None, reason="no lane was there")
    assert (alert.level, alert.value, alert.limit, alert.fired, alert.counts) == (None, None, None, False, False)
    assert alert.reason == "no lane was there"
    assert alert.line == "note: pipeline_stall is not evaluated: no lane was there"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_value_that_is_no_number_and_has_no_reason_is_not_evaluated(value: float | None):
    alert = of(STALL, value)
    assert (alert.level, alert.value) == (None, None)
    assert alert.words == f"pipeline_stall is not evaluated: it is {value}, and no reason was given"


def test_a_metric_that_nobody_gave_is_not_evaluated():
    overlap, disk = evaluate([Rule("overlap", "below", 0.5, 0.1), Rule("utilization_disk", "above", 0.5, 0.9)], {})
    assert overlap.words == "overlap is not evaluated: the run gave no such value"
    assert disk.words == "utilization_disk is not evaluated: the run had no lane 'disk'"


def test_a_rule_about_critical_values_fires_for_a_warning_but_does_not_count_it():
    rule = Rule("gpu_temperature_c", "above", 80, 90, level="critical")
    warm, hot = of(rule, 85.0, "°C"), of(rule, 95.0, "°C")
    assert (warm.level, warm.fired, warm.counts) == ("warning", True, False)
    assert (hot.level, hot.fired, hot.counts) == ("critical", True, True)
    assert hot.words == "gpu_temperature_c is 95 °C, above the critical limit of 90 °C"


@pytest.mark.parametrize(
    ("rule", "value", "unit", "says"),
    [
        (Rule("overlap", "below", 0.5, 0.2), 0.45, "share", "45 %, below the warning limit of 50 %"),
        (Rule("throughput", "below", 500, 100), 412.4, "items/s", "412 items/s, below the warning limit of 500 items/s"),
        (Rule("step_interval_p95", "above", 40, 80, "ms"), 1.234e9, "ns", "1234 ms, above the critical limit of 80 ms"),
        (Rule("step_interval_p95", "above", 4e7, 8e7), 1.234e9, "ns", "1.23 s, above the critical limit of 80 ms"),
        (Rule("process_rss_bytes", "above", 1, 2, "GB"), 1.5e9, "bytes", "1.5 GB, above the warning limit of 1 GB"),
        (Rule("process_rss_bytes", "above", 2**30, 2**31), 1.5 * 2**30, "bytes", "1.5 GiB, above the warning limit of 1 GiB"),
        (Rule("gpu_pcie_rx_bytes_per_s", "below", 8, 2, "GB/s"), 0.0, "bytes/s", "0 GB/s, below the critical limit of 2 GB/s"),
        (Rule("gpu_pcie_rx_bytes_per_s", "below", 8e9, 2e9), 3e9, "bytes/s", "3 GB/s, below the warning limit of 8 GB/s"),
        (Rule("gpu_sm_clock_hz", "below", 1.5e9, 1e9), 1.2e9, "Hz", "1.2 GHz, below the warning limit of 1.5 GHz"),
        (Rule("gpu_power_w", "above", 600, 700), 650.0, "W", "650 W, above the warning limit of 600 W"),
    ],
)
def test_words_are_in_the_unit_of_the_rule_or_in_one_that_reads_well(rule: Rule, value: float, unit: str, says: str):
    assert of(rule, value, unit).words == f"{rule.metric} is {says}"


def test_a_value_close_to_its_limit_has_the_digits_that_tell_them_apart():
    assert of(STALL, 0.200004).words == "pipeline_stall is 20.0004 %, above the critical limit of 20 %"
    assert of(STALL, 0.1).words == "pipeline_stall is 10 %, not above the warning limit of 10 %"


def test_alerts_come_in_the_order_of_the_rules_and_both_sides_of_a_metric_are_told():
    rules = [Rule("gpu_power_w", "above", 600, 700), STALL, Rule("gpu_power_w", "below", 200, 100)]
    alerts = evaluate(rules, {"gpu_power_w": Value(150.0, "W"), "pipeline_stall": Value(0.0, "share")})
    assert [(alert.metric, alert.level) for alert in alerts] == [
        ("gpu_power_w", "ok"), ("pipeline_stall", "ok"), ("gpu_power_w", "warning"),
    ]  # fmt: skip


def test_an_alert_goes_through_strict_json_and_a_later_version_s_fields_are_ignored():
    for alert in (of(STALL, 0.23), of(STALL, None, reason="gone")):
        data = json.loads(json.dumps(alert.as_dict(), allow_nan=False))
        assert Alert.from_dict(data | {"colour": "red"}) == alert


def test_rules_and_the_strip_load_neither_torch_nor_pynvml_nor_psutil():
    script = (
        "import sys, labkit.monitor.strip, labkit.monitor.alerts as alerts; alerts.read_rules(alerts.EXAMPLE);"
        "print(sorted({'torch', 'pynvml', 'psutil'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
