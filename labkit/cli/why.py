"""`labkit why RUN`: what the time of a run went to, from the ideal to what was measured, and what would help most."""

from dataclasses import asdict
from typing import Any

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json
from labkit.errors import RunFailed, TraceError
from labkit.metrics.critical_path import CriticalPath, critical_path
from labkit.metrics.host_timeline import PROGRAM, program_of
from labkit.metrics.unit_slices import HOST
from labkit.metrics.waterfall import Waterfall, waterfall
from labkit.metrics.whatif import SPEEDUPS, Replays, Speedup
from labkit.result import Run
from labkit.runner.imported import origin
from labkit.units import NS_PER_MS, format_percent, format_time

BAR = 40
LISTED = 8
LEAST = 0.0005
LEAST_GAIN = 0.01


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
    warmup = run.record.warmup
    fall, path = waterfall(run.trace, warmup), critical_path(run.trace, warmup)
    replays = _replays(run, warmup)
    found = replays.virtual_speedups() if isinstance(replays, Replays) else ()
    if given.json:
        print_json(_as_dict(run, fall, path, found, replays))
        return OK
    measured = f"{'measured on' if run.record.measured else 'predicted,'} {run.record.device_label}"
    print(f"{run.record.id}: {origin(run.record) or measured}\n")
    print(run.summary.bottleneck if run.summary else "")
    told = program_of(run.trace)
    print("\n".join(["", *_waterfall_lines(fall), "", *_path_lines(path), "", *_speedup_lines(found, replays, told)]))
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
    each = "time of a step" if fall.steps else "time in all"
    lines = [f"from ideal to measured (1 is the busy time of {fall.lane}; {each})"]
    for words, base, ns in rows:
        begin, end = (round(BAR * each / fall.total_ns) for each in (base, base + ns))
        bar = " " * begin + "█" * (end - begin) if end > begin else " " * begin + "▏"
        lines.append(f"  {words:<{wide}}  {fall.relative(ns):5.2f}  {format_time(fall.per_step_ms(ns) * NS_PER_MS):>9}  {bar}")
    return lines


def _path_lines(path: CriticalPath) -> list[str]:
    shares = list(path.shares().items())
    listed = [(name, share) for name, share in shares[:LISTED] if share >= LEAST]
    lines = ["the critical path", *(f"  {format_percent(share):>7}  {name}" for name, share in listed)]
    rest = sum(share for _, share in shares[len(listed) :])
    few = format_percent(rest) if rest >= LEAST else "< 0.1 %"
    return [*lines, f"  {few:>7}  {len(shares) - len(listed)} more"] if len(shares) > len(listed) else lines


def _speedup_lines(found: tuple[Speedup, ...], replays: Replays | str, program: str) -> list[str]:
    if isinstance(replays, str):
        return [f"what would help: {replays}"]
    helping = [each for each in found if max(each.gains) >= 1 + LEAST_GAIN][:LISTED]
    if not helping:
        return ["what would help: no stage by itself; taking all the time of any one of them would gain less than 1 %"]
    names = [program if each.sort == HOST and each.name == PROGRAM else each.name for each in helping]
    wide = max(map(len, names))
    heading = "".join(f"{format_percent(share):>8}" for share in SPEEDUPS)
    lines = [
        f"what would help: how much faster the whole becomes where a stage takes so much less time (a prediction; the replay is off by {format_percent(abs(replays.error))})",
        f"  {'':<{wide}}{heading}",
    ]
    lines += [f"  {name:<{wide}}" + "".join(f"{gain:>7.2f}×" for gain in each.gains) for name, each in zip(names, helping, strict=True)]
    more = len(found) - len(helping)
    return [*lines, f"  {more} more stage{'s' if more > 1 else ''}, each with a smaller gain or none"] if more else lines


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
