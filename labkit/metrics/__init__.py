"""From a trace to values: pure functions that say unit, n, definition, and why a value is absent."""

from labkit.metrics.bottleneck import bottleneck
from labkit.metrics.bound import bound_efficiency, busiest_lane
from labkit.metrics.cause import Cause
from labkit.metrics.compare import Ratio, ratio_interval, sentence
from labkit.metrics.latency import batch_age, batch_ages_ns, step_interval, step_intervals_ns
from labkit.metrics.measured_costs import measured_costs
from labkit.metrics.metric import Better, Metric
from labkit.metrics.overlap import Overlap, overlap
from labkit.metrics.percentiles import percentile
from labkit.metrics.replay import Program, Replayed, compile_replay, replay
from labkit.metrics.stalls import LaneAccount, Stall, account, in_words, waits_by_cause
from labkit.metrics.summary import OpStats, Summary, summarize
from labkit.metrics.throughput import throughput
from labkit.metrics.utilization import utilization
from labkit.metrics.verdict import Grade, Verdict, judge
from labkit.metrics.window import Window, completions, steady_window

__all__ = [
    "Better",
    "Cause",
    "Grade",
    "LaneAccount",
    "Metric",
    "OpStats",
    "Overlap",
    "Program",
    "Ratio",
    "Replayed",
    "Stall",
    "Summary",
    "Verdict",
    "Window",
    "account",
    "batch_age",
    "batch_ages_ns",
    "bottleneck",
    "bound_efficiency",
    "busiest_lane",
    "compile_replay",
    "completions",
    "in_words",
    "judge",
    "measured_costs",
    "overlap",
    "percentile",
    "ratio_interval",
    "replay",
    "sentence",
    "steady_window",
    "step_interval",
    "step_intervals_ns",
    "summarize",
    "throughput",
    "utilization",
    "waits_by_cause",
]
