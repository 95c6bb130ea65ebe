"""`labkit why RUN`: what the time of a run went to, from the ideal to what was measured, and what would help most."""

from dataclasses import asdict
from typing import Any

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json
from labkit.errors import RunFailed, TraceError
from labkit.metrics.critical_path import CriticalPath, critical_path
from labkit.metrics.waterfall import Waterfall, waterfall
from labkit.metrics.whatif import SPEEDUPS, Replays, Speedup
from labkit.result import Run
from labkit.units import format_percent

BAR = 40
LISTED = 8


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 for a run that left no trace."""
    flags = parser("why", "Where the time of a run went: from the ideal to the measured, the critical path, and what would help.")
    flags.add_argument("run", help='a run\'s id, the start or end of one, its folder, or "last"')
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.stored_run(given.run, given.out).checked()
    if run.trace is None:
        raise RunFailed(f"run {run.record.id} has no trace to look into")
    warmup = run.record.budget["warmup"]
    fall, path = waterfall(run.trace, warmup), critical_path(run.trace, warmup)
    replays = _replays(run, warmup)
    found = replays.virtual_speedups() if isinstance(replays, Replays) else ()
    if given.json:
        print_json(_as_dict(run, fall, path, found, replays))
        return OK
    print(f"{run.record.id}: {'measured on' if run.record.measured else 'predicted,'} {run.record.device_label}\n")
    print(run.summary.bottleneck if run.summary else "")
    print("\n".join(["", *_waterfall_lines(fall), "", *_path_lines(path), "", *_speedup_lines(found, replays)]))
    return OK


def _replays(run: Run, warmup: int) -> Replays | str:
    try:
        assert run.trace is not None
        return Replays(run.trace, warmup)
    except TraceError as error:
        return str(error)


def _waterfall_lines(fall: Waterfall | None) -> list[str]:
    if fall is None:
        return ["no lane but the host was busy: there is no waterfall"]
    rows = [(f"ideal: {fall.lane} busy", 0, fall.ideal_ns)]
    for loss in fall.losses:
        rows.append((loss.words, rows[-1][1] + rows[-1][2], loss.ns))
    rows.append(("in all", 0, fall.total_ns))
    wide = max(len(words) for words, *_ in rows)
    lines = [f"from ideal to measured (1 is the busy time of {fall.lane}; ms of a step)"]
    for words, base, ns in rows:
        begin, end = (round(BAR * each / fall.total_ns) for each in (base, base + ns))
        bar = " " * begin + "█" * (end - begin) if end > begin else " " * begin + "▏"
        lines.append(f"  {words:<{wide}}  {fall.relative(ns):5.2f}  {fall.per_step_ms(ns):8.3g} ms  {bar}")
    return lines


def _path_lines(path: CriticalPath) -> list[str]:
    shares = list(path.shares().items())
    lines = ["the critical path"]
    lines += [f"  {format_percent(share):>6}  {name}" for name, share in shares[:LISTED]]
    rest = sum(share for _, share in shares[LISTED:])
    return [*lines, f"  {format_percent(rest):>6}  {len(shares) - LISTED} more"] if len(shares) > LISTED else lines


def _speedup_lines(found: tuple[Speedup, ...], replays: Replays | str) -> list[str]:
    if isinstance(replays, str):
        return [f"what would help: {replays}"]
    wide = max(len(each.name) for each in found)
    heading = "".join(f"{format_percent(share):>8}" for share in SPEEDUPS)
    lines = [
        f"what would help: throughput where a stage takes so much less time (a prediction; the replay is off by {format_percent(abs(replays.error))})",
        f"  {'':<{wide}}{heading}",
    ]
    return lines + [f"  {each.name:<{wide}}" + "".join(f"{gain:>7.2f}×" for gain in each.gains) for each in found[:LISTED]]


def _as_dict(run: Run, fall: Waterfall | None, path: CriticalPath, found: tuple[Speedup, ...], replays: Replays | str) -> dict[str, Any]:
    return {
        "id": run.record.id,
        "measured": run.record.measured,
        "bottleneck": run.summary.bottleneck if run.summary else None,
        "waterfall": None if fall is None else asdict(fall),
        "critical_path": {"wall_ns": path.end_ns - path.start_ns, "op_ns": path.op_ns, "shares": path.shares()},
        "speedups": {"shares": list(SPEEDUPS), "predicted": True, "stages": [asdict(each) for each in found]},
        "replay_error": replays.error if isinstance(replays, Replays) else None,
        "reason": replays if isinstance(replays, str) else None,
    }
