"""Several rounds of one setting as one summary: samples are pooled, never percentiles averaged.

Throughput is all items over all windows; percentiles are taken over every round's samples; shares are weighted by the
length of their windows. The window is that of the round with the median throughput.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from labkit.errors import TraceError
from labkit.metrics.bottleneck import bottleneck
from labkit.metrics.bound import bound_efficiency
from labkit.metrics.cause import Cause
from labkit.metrics.latency import batch_age_of, batch_ages_ns, step_interval_of, step_intervals_ns
from labkit.metrics.metric import Metric
from labkit.metrics.overlap import overlap
from labkit.metrics.requests import counted_requests, request_summary
from labkit.metrics.stalls import account, in_words, waits_by_cause
from labkit.metrics.summary import OpStats, Summary, summarize
from labkit.metrics.window import Window, steady_window
from labkit.trace import Trace
from labkit.units import NS_PER_S


def pool(traces: Sequence[Trace], *, warmup_steps: int = 0) -> Summary:
    """The summary of all rounds together. Raises TraceError for no trace at all."""
    if not traces:
        raise TraceError("there is no round to pool")
    rounds = [summarize(trace, warmup_steps=warmup_steps) for trace in traces]
    windows = [steady_window(trace, warmup_steps) for trace in traces]
    weights = [float(window.wall_ns) for window in windows]
    intervals = np.concatenate([step_intervals_ns(*pair) for pair in zip(traces, windows, strict=True)])
    ages = np.concatenate([batch_ages_ns(*pair) for pair in zip(traces, windows, strict=True)])
    items = sum(int(trace["items"][window.rows].sum()) for trace, window in zip(traces, windows, strict=True))
    typical = sorted(rounds, key=lambda summary: summary.throughput.value or 0.0)[len(rounds) // 2]
    busy = _by_name(rounds, lambda summary: summary.utilization, weights)
    causes = _pooled_causes(traces, windows, weights)
    overlapped = _weighted([summary.overlap for summary in rounds], weights)
    return replace(
        typical,
        throughput=_pooled_rate(typical.throughput, items, sum(weights), len(intervals)),
        step_interval=step_interval_of(intervals),
        batch_age=batch_age_of(ages),
        utilization=busy,
        waiting={lane: in_words(shares) for lane, shares in causes.items()},
        overlap=overlapped,
        bound_efficiency=bound_efficiency(busy),
        bottleneck=bottleneck(causes, busy, overlapped, _occupied(traces, windows)),
        ops=_pooled_ops(rounds),
        dropped=sum(summary.dropped for summary in rounds),
        steps=sum(summary.steps for summary in rounds),
        requests=request_summary([counted_requests(*pair, warmup_steps) for pair in zip(traces, windows, strict=True)]),
    )


def _pooled_rate(typical: Metric, items: int, wall_ns: float, n: int) -> Metric:
    if typical.value is None or not wall_ns:
        return typical
    return replace(typical, value=items * NS_PER_S / wall_ns, n=n)


def _by_name(
    rounds: Sequence[Summary], read: Callable[[Summary], dict[str, Metric]], weights: Sequence[float]
) -> dict[str, Metric]:
    """Each named share over the rounds that have it."""
    pooled = {}
    for name in dict.fromkeys(name for summary in rounds for name in read(summary)):
        pairs = [(read(summary)[name], w) for summary, w in zip(rounds, weights, strict=True) if name in read(summary)]
        pooled[name] = _weighted([metric for metric, _ in pairs], [weight for _, weight in pairs])
    return pooled


def _weighted(metrics: Sequence[Metric], weights: Sequence[float]) -> Metric:
    known = [(m.value, w) for m, w in zip(metrics, weights, strict=True) if m.value is not None]
    if not known or not sum(w for _, w in known):
        return metrics[0]
    value = sum(v * w for v, w in known) / sum(w for _, w in known)
    return replace(next(m for m in metrics if m.value is not None), value=value, n=sum(m.n for m in metrics))


def _pooled_causes(
    traces: Sequence[Trace], windows: Sequence[Window], weights: Sequence[float]
) -> dict[str, dict[Cause, float]]:
    """Lane → cause → share of the lane's time over all rounds."""
    whole = sum(weights) or 1.0
    pooled: dict[str, dict[Cause, float]] = {}
    for trace, window, weight in zip(traces, windows, weights, strict=True):
        for lane, causes in waits_by_cause(account(trace), window.start_ns, window.end_ns).items():
            shares = pooled.setdefault(lane, {})
            for cause, share in causes.items():
                shares[cause] = shares.get(cause, 0.0) + share * weight / whole
    return pooled


def _occupied(traces: Sequence[Trace], windows: Sequence[Window]) -> dict[str, float]:
    """Lane → share of all windows that any of its units was busy."""
    busy: dict[str, int] = {}
    for trace, window in zip(traces, windows, strict=True):
        for lane, busy_ns in overlap(trace, window.start_ns, window.end_ns).busy_ns.items():
            busy[lane] = busy.get(lane, 0) + busy_ns
    whole_ns = sum(window.wall_ns for window in windows) or 1
    return {lane: busy_ns / whole_ns for lane, busy_ns in busy.items()}


def _pooled_ops(rounds: Sequence[Summary]) -> dict[str, OpStats]:
    """Op times over all rounds; the median is the median round's."""
    pooled = {}
    for name in sorted({name for summary in rounds for name in summary.ops}):
        stats = [summary.ops[name] for summary in rounds if name in summary.ops]
        n = sum(part.n for part in stats)
        mean = sum(part.mean_ns * part.n for part in stats) / n
        median = sorted(part.p50_ns for part in stats)[len(stats) // 2]
        pooled[name] = OpStats(n, mean, median, stats[0].lane)
    return pooled
