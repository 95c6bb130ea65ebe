"""An imported trace on a terminal: what it is, what holds it back, what each stream was idle for, and its metrics."""

from labkit.cli.words import verdict_words
from labkit.lab import Run
from labkit.metrics.gpu_idle import (
    REASONS,
    CommunicationOverlap,
    communication_overlap,
    device_span,
    gpu_idle,
    gpu_time,
)
from labkit.runner.imported import contents, origin
from labkit.trace import Trace
from labkit.units import ABSENT, format_percent, format_time


def imported_lines(run: Run) -> list[str]:
    """All of it; without the streams where the trace is not there. Raises RunFailed where the run left no metrics."""
    from labkit.report.table import as_text, side_by_side_table

    record, shown = run.record, run.shown(run.record.experiment)
    lines = [f"{record.id}: {origin(record)}", *filter(None, [contents(record)]), "", shown.summary.bottleneck, ""]
    lines += _stream_lines(run.trace) if run.trace is not None else []
    table = [row for row in side_by_side_table([shown]) if row[0] != "bottleneck" and row[1] != ABSENT]
    rate = shown.summary.throughput
    return [*lines, as_text(table), "", *([f"no throughput: {rate.reason}"] if rate.value is None else []), verdict_words(run)]


def _stream_lines(trace: Trace) -> list[str]:
    """A line a stream: how long, how busy, and idle for what, as shares of the time from its first op to its last; and for all together."""
    streams = gpu_idle(trace)
    if not streams:
        return []
    lines = [f"{'stream':<14}{'from first to last op':>22}{'busy':>9}" + "".join(f"{reason:>14}" for reason in REASONS)]
    lines += [_line(each.lane, each.span_ns, [each.busy_ns, *(each.idle_ns[reason] for reason in REASONS)]) for each in streams]
    whole = gpu_time(trace, *device_span(trace))
    if whole is not None and len(streams) > 1:
        idle = [whole.starved_ns, 0, whole.launch_ns, whole.waiting_ns + whole.untold_ns]
        lines.append(_line("any of them", whole.span_ns, [whole.running_ns, *idle]))
    return [*lines, "", *_overlap_lines(communication_overlap(trace))]


def _line(name: str, span_ns: int, parts_ns: list[int]) -> str:
    busy, *idle = [format_percent(ns / span_ns if span_ns else None) for ns in parts_ns]
    return f"{name:<14}{format_time(span_ns):>22}{busy:>9}" + "".join(f"{share:>14}" for share in idle)


def _overlap_lines(overlap: CommunicationOverlap) -> list[str]:
    if overlap.share.value is None:
        return []
    return [f"communication {format_time(overlap.communication_ns)}, {format_percent(overlap.share.value)} of it beside computation", ""]
