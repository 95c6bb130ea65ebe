"""`labkit sweep EXPERIMENT --grid knob=v,v …`: every combination, going on where an earlier start ended."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, add_running, knob_values, parse_with_experiment, parser
from labkit.cli.main import FAILED, INTERRUPTED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say
from labkit.figures.numbers import metric_text
from labkit.knobs.grid import parse_axes


def main(arguments: list[str]) -> int:
    """Exit code 0 when every new run succeeded."""
    flags = parser("sweep", "Run every combination of some knobs; combinations that are done are skipped.")
    flags.add_argument("--grid", action="append", required=True, metavar="KNOB=V,V", help="one axis; give it again for more")
    add_running(flags, lab.SWEEP_SECONDS)
    add_out(flags)
    add_json(flags)
    given = parse_with_experiment(flags, arguments)
    axes = parse_axes(given.grid)
    with progress_bar("sweep") as move:

        def on_run(made: int, of: int, run: lab.Run) -> None:
            move(made / of)
            say(_line(run, list(axes)))

        swept = lab.sweep(
            given.experiment, axes, device=given.device, seconds=given.seconds, steps=given.steps,
            warmup=given.warmup, out=given.out, on_run=on_run, **knob_values(given),
        )  # fmt: skip
    if given.json:
        runs, there = ([run_json(run) for run in part] for part in (swept.made, swept.there))
        print_json({"runs": runs, "there": there, "skipped": len(there), "out": given.out})
    else:
        for run in swept.there:
            print(f"{_line(run, list(axes))} (was there already)")
        print(f"{len(swept.made)} made, {len(swept.there)} there already; all in {given.out}")
        print("points are measured one after another: small differences are settled by labkit compare")
    statuses = {run.record.status for run in swept.made}
    return INTERRUPTED if "cancelled" in statuses else FAILED if "failed" in statuses else OK


def _line(run: lab.Run, axes: list[str]) -> str:
    point = ", ".join(f"{name}={run.record.knobs[name]}" for name in axes)
    if run.summary is None or run.record.status != "ok":
        return f"{point}: {run.record.status}: {run.record.reason}"
    return f"{point}: {metric_text(run.summary.throughput)}  {run.record.verdict.grade}"
