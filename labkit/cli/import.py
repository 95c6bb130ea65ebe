"""`labkit import FILE`: a trace of PyTorch's profiler as a run, for `show`, `why`, `whatif`, `report` and the figures."""

from dataclasses import asdict

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.run import print_run
from labkit.cli.words import print_json, run_json
from labkit.metrics.gpu_idle import REASONS, CommunicationOverlap, StreamIdle, communication_overlap, gpu_idle
from labkit.units import format_percent, format_time


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 for a file of which nothing can be made."""
    flags = parser("import", "Read a trace of PyTorch's profiler (.json or .json.gz; CUDA, ROCm or CPU) and save it as a run.")
    flags.add_argument("file", help="what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.import_trace(given.file, given.out)
    assert run.trace is not None
    streams, overlap = gpu_idle(run.trace), communication_overlap(run.trace)
    if given.json:
        print_json({**run_json(run), "streams": [asdict(stream) for stream in streams], "communication": asdict(overlap)})
        return OK
    print(f"{run.record.id}: {given.file}, {run.record.device_label}\n")
    for line in (*_stream_lines(streams), *_overlap_lines(overlap)):
        print(line)
    print_run(run)
    return OK


def _stream_lines(streams: tuple[StreamIdle, ...]) -> list[str]:
    """A line a stream: how long, how busy, and idle for what; shares of the time from its first op to its last."""
    if not streams:
        return []
    lines = [f"{'stream':<14}{'from first to last op':>22}{'busy':>9}" + "".join(f"{reason:>14}" for reason in REASONS)]
    for each in streams:
        shares = [each.busy_ns, *(each.idle_ns[reason] for reason in REASONS)]
        busy, *idle = [format_percent(ns / each.span_ns if each.span_ns else None) for ns in shares]
        lines.append(f"{each.lane:<14}{format_time(each.span_ns):>22}{busy:>9}" + "".join(f"{share:>14}" for share in idle))
    return [*lines, ""]


def _overlap_lines(overlap: CommunicationOverlap) -> list[str]:
    if overlap.share.value is None:
        return []
    return [f"communication {format_time(overlap.communication_ns)}, {format_percent(overlap.share.value)} of it beside computation", ""]
