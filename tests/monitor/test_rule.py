"""A rule is checked when it is made, and compares in the metric's own unit."""

import pytest

from labkit.errors import AlertError
from labkit.monitor.rule import Rule, check_distinct, metric_unit, metric_units


def test_the_metrics_are_those_of_the_run_its_lanes_and_every_sensor():
    units = metric_units()
    assert units["throughput"] == "items/s"
    assert units["step_interval_p99"] == units["batch_age_p50"] == "ns"
    assert units["pipeline_stall"] == units["utilization_compute"] == units["process_cpu_share"] == "share"
    assert units["gpu_utilization"] == units["gpu_throttled_by_heat"] == units["monitor_cpu_share"] == "share"
    assert (units["gpu_power_w"], units["gpu_temperature_c"]) == ("W", "°C")
    assert (units["gpu_memory_used_bytes"], units["gpu_pcie_rx_bytes_per_s"]) == ("bytes", "bytes/s")


def test_a_second_lane_of_a_role_is_named_by_its_number():
    assert metric_unit("utilization_compute1") == "share"


@pytest.mark.parametrize("name", ["gpu_util", "utilization_gpu", "utilization_compute0", "utilization_", "", None, ["overlap"], 3])
def test_an_unknown_metric_is_refused_with_those_that_there_are(name):
    with pytest.raises(AlertError, match=r"there is no metric .*; there are: throughput, .*gpu_utilization"):
        Rule(name, "above", 1, 2)


@pytest.mark.parametrize(
    ("metric", "unit", "written", "limit"),
    [
        ("pipeline_stall", "%", 57, 0.57),
        ("pipeline_stall", None, 0.25, 0.25),
        ("step_interval_p50", "ms", 1.5, 1.5e6),
        ("step_interval_p50", "s", 2, 2e9),
        ("step_interval_p50", None, 300, 300),
        ("process_rss_bytes", "GB", 3, 3e9),
        ("process_rss_bytes", "MB", 3, 3e6),
        ("process_rss_bytes", "GiB", 1, 2**30),
        ("gpu_pcie_rx_bytes_per_s", "GB/s", 12, 12e9),
        ("gpu_sm_clock_hz", "MHz", 1980, 1.98e9),
        ("gpu_temperature_c", "C", 80, 80),
        ("throughput", "items/s", 500, 500),
    ],
)
def test_a_limit_is_scaled_to_the_unit_of_its_metric(metric: str, unit: str | None, written: float, limit: float):
    rule = Rule(metric, "below", written, 0, unit)
    assert rule.limit("warning") == pytest.approx(limit, rel=1e-12)
    assert rule.limit("critical") == 0


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"when": "over"}, "when='over' is not allowed: below, above"),
        ({"level": "fatal"}, "level='fatal' is not allowed: warning, critical"),
        ({"level": None}, "level=None is not allowed"),
        ({"unit": "ms"}, "unit='ms' is not allowed: %, share"),
        ({"unit": ["%"]}, r"unit=\['%'\] is not allowed"),
        ({"warning": "10"}, "warning='10' is not allowed: a number is"),
        ({"warning": True}, "warning=True is not allowed: a number is"),
        ({"critical": None}, "critical=None is not allowed: a number is"),
        ({"critical": float("nan")}, "critical=nan is not allowed: a finite number"),
        ({"critical": float("inf")}, "critical=inf is not allowed: a finite number"),
        ({"critical": 10**400}, "critical=1000.* is not allowed: a finite number"),
        ({"critical": 120}, "critical=120 is not allowed: 0 to 100 % are"),
        ({"warning": -1}, "warning=-1 is not allowed: 0 to 100 % are"),
        ({"unit": None}, "warning=10 is not allowed: a share of 0 to 1 is; for percent write \"unit\": \"%\""),
        ({"critical": 5}, "critical=5 and warning=10 are in the wrong order: above the limits is bad, so critical must be at least"),
        ({"when": "below"}, "in the wrong order: below the limits is bad, so critical must be at most"),
    ],
)  # fmt: skip
def test_a_rule_that_makes_no_sense_is_refused(changed: dict, says: str):
    sensible = {"metric": "pipeline_stall", "when": "above", "warning": 10, "critical": 20, "unit": "%"}
    assert Rule(**sensible).level == "warning"
    with pytest.raises(AlertError, match=rf"pipeline_stall: .*{says}"):
        Rule(**(sensible | changed))


@pytest.mark.parametrize(
    ("when", "value", "level"),
    [
        ("above", 0.1999, "ok"),
        ("above", 0.2, "ok"),
        ("above", 0.2001, "warning"),
        ("above", 0.3001, "critical"),
        ("below", 0.3001, "ok"),
        ("below", 0.3, "ok"),
        ("below", 0.2999, "warning"),
        ("below", 0.1999, "critical"),
    ],
)
def test_a_value_is_as_bad_as_the_worst_limit_that_it_crosses(when: str, value: float, level: str):
    limits = (20, 30) if when == "above" else (30, 20)
    assert Rule("overlap", when, *limits, "%").level_of(value) == level


def test_equal_limits_leave_no_room_for_a_warning():
    assert Rule("overlap", "above", 20, 20, "%").level_of(0.21) == "critical"


def test_a_rounding_of_the_last_bit_does_not_cross_a_limit():
    as_nvml_scales_it = 57 * (1 / 100)
    assert as_nvml_scales_it > 0.57
    assert Rule("gpu_utilization", "above", 0.57, 0.57).level_of(as_nvml_scales_it) == "ok"


def test_a_rule_counts_from_its_level_on():
    strict, lenient = Rule("overlap", "below", 0.5, 0.2), Rule("overlap", "below", 0.5, 0.2, level="critical")
    assert [strict.counts(level) for level in ("ok", "warning", "critical")] == [False, True, True]
    assert [lenient.counts(level) for level in ("ok", "warning", "critical")] == [False, False, True]


def test_one_rule_for_each_side_of_a_metric():
    low, high = Rule("gpu_power_w", "below", 200, 100), Rule("gpu_power_w", "above", 600, 700)
    check_distinct([low, high])
    with pytest.raises(AlertError, match="two rules say when gpu_power_w is bad above a limit"):
        check_distinct([low, high, Rule("gpu_power_w", "above", 1, 2)])
