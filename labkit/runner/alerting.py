"""From a run to its alerts: the values that rules are checked against, out of the metrics and the sensors' summaries.

The same values serve the record of a run that has ended and, live, the panel. An alert is about what was measured: of a
simulated run no rule is evaluated.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from labkit.metrics.metric import Metric
from labkit.metrics.summary import Summary
from labkit.monitor import Reading
from labkit.monitor.alerts import Alert, Rule, Value, evaluate
from labkit.monitor.rule import RUN_UNITS, UTILIZATION, metric_units
from labkit.runner.record import RunRecord

NO_METRICS = "the run has left no metrics"
NO_SUCH_METRIC = "the run's metrics do not have it"
NO_READINGS = "the monitor has left no readings"
NO_GPU = "the run was not on a GPU, so none was watched"
SIMULATED = "simulated: an alert is about what was measured"

_COUNTS_UP = frozenset({"gpu_energy_j", "cpu_energy_j"})
"""Sensors that count from the start of the run: of these the last count is taken, not the mean."""


def with_alerts(record: RunRecord, rules: Iterable[Rule]) -> RunRecord:
    """The record with what the rules say of it, one alert a rule."""
    summary = Summary.from_dict(record.metrics) if record.metrics else None
    alerts = evaluate(rules, values_of(summary, record.monitor))
    return replace(record, alerts=tuple(alert.as_dict() for alert in alerts))


def alerts_of(record: RunRecord) -> tuple[Alert, ...]:
    """The alerts of a record as objects."""
    return tuple(Alert.from_dict(alert) for alert in record.alerts)


def values_of(summary: Summary | None, monitor: Mapping[str, Any]) -> dict[str, Value]:
    """The value of every metric that a rule may name; those that are absent have their reason.

    summary  of the run; None where it left no trace, or has not got one yet
    monitor  the sensors' summaries, as `Sampler.summary()` gives them: of each the mean over the run is taken
    """
    units = metric_units()
    if summary is not None and not summary.measured:
        return {name: Value(None, unit, SIMULATED) for name, unit in units.items()}
    named = dict(_metrics(summary)) if summary is not None else {}
    values = {name: _of_metric(metric) for name, metric in named.items()}
    for name, unit in units.items():
        if name not in values:
            values[name] = _of_run(name, unit, summary) if _is_of_run(name) else _of_sensor(name, unit, monitor)
    return values


def values_now(summary: Summary | None, readings: Mapping[str, Reading]) -> dict[str, Value]:
    """As `values_of`, while the run goes on: of each sensor its last reading stands for the mean."""
    latest = {name: {"mean": one.value, "max": one.value, "reason": one.reason} for name, one in readings.items()}
    return values_of(summary, latest)


def _metrics(summary: Summary) -> Iterator[tuple[str, Metric]]:
    """The metrics that a summary has, by the names that rules call them."""
    yield "throughput", summary.throughput
    yield from ((f"step_interval_{name}", metric) for name, metric in summary.step_interval.items())
    yield from ((f"batch_age_{name}", metric) for name, metric in summary.batch_age.items())
    yield from ((f"{UTILIZATION}{lane}", metric) for lane, metric in summary.utilization.items())
    yield "overlap", summary.overlap
    yield "bound_efficiency", summary.bound_efficiency
    compute = summary.utilization.get("compute")
    if compute is not None:
        waited = None if compute.value is None else 1 - compute.value
        yield "pipeline_stall", replace(compute, value=waited)


def _is_of_run(name: str) -> bool:
    return name in RUN_UNITS or name.startswith(UTILIZATION)


def _of_metric(metric: Metric) -> Value:
    return Value(metric.value, metric.unit, metric.reason)


def _of_run(name: str, unit: str, summary: Summary | None) -> Value:
    """The absence of a metric that the summary does not have."""
    if summary is None:
        return Value(None, unit, NO_METRICS)
    lane = {"pipeline_stall": "compute"}.get(name, name.removeprefix(UTILIZATION))
    return Value(None, unit, NO_SUCH_METRIC if lane == name else f"the run had no lane '{lane}'")


def _of_sensor(name: str, unit: str, monitor: Mapping[str, Any]) -> Value:
    summary = monitor.get(name)
    if summary is None:
        return Value(None, unit, NO_GPU if monitor and name.startswith("gpu_") else NO_READINGS)
    value = summary["max" if name in _COUNTS_UP else "mean"]
    return Value(value, unit, summary["reason"] if value is None else None)
