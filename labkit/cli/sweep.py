"""`labkit sweep EXPERIMENT --grid knob=v,v …`: every combination, going on where an earlier start ended; and which of them no other beats."""

from pathlib import Path
from typing import TYPE_CHECKING

from labkit import lab
from labkit.cli.flags import add_json, add_out, add_running, knob_values, parse_with_experiment, parser
from labkit.cli.main import FAILED, INTERRUPTED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say
from labkit.errors import StoreError
from labkit.figures.numbers import count_text, metric_text
from labkit.knobs.grid import parse_axes
from labkit.units import format_time

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("throughput", "goodput", "latency_p99_ns")


def main(arguments: list[str]) -> int:
    """Exit code 0 when every new run succeeded."""
    flags = parser("sweep", "Run every combination of some knobs; combinations that are done are skipped.")
    flags.add_argument("--grid", action="append", required=True, metavar="KNOB=V,V", help="one axis; give it again for more")
    add_running(flags, lab.SWEEP_SECONDS)
    add_out(flags)
    add_json(flags)
    flags.add_argument("--html", metavar="FILE", help="also write the figures: over the first axis, and of requests the Pareto front")
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
    if given.html:
        _write(given.html, swept.table(), list(axes))
    if given.json:
        runs, there = ([run_json(run) for run in part] for part in (swept.made, swept.there))
        print_json({"runs": runs, "there": there, "skipped": len(there), "out": given.out})
    else:
        for run in swept.there:
            print(f"{_line(run, list(axes))} (was there already)")
        print(f"{len(swept.made)} made, {len(swept.there)} there already; all in {given.out}")
        for line in _front_lines(swept.table(), list(axes)):
            print(line)
        print("points are measured one after another: small differences are settled by labkit compare")
    statuses = {run.record.status for run in swept.made}
    return INTERRUPTED if "cancelled" in statuses else FAILED if "failed" in statuses else OK


def _line(run: lab.Run, axes: list[str]) -> str:
    point = ", ".join(f"{name}={run.record.knobs[name]}" for name in axes)
    if run.summary is None or run.record.status != "ok":
        return f"{point}: {run.record.status}: {run.record.reason}"
    numbers = [metric_text(run.summary.throughput)]
    if (requests := run.summary.requests) is not None:
        numbers += [f"{metric_text(requests.goodput)} in time", f"p99 {metric_text(requests.latency['p99'])}"]
    return f"{point}: {', '.join(numbers)}  {run.record.verdict.grade}"


def _front_lines(table: "pd.DataFrame", axes: list[str]) -> list[str]:
    """Of runs that serve requests: those that no other beats in throughput and p99, for each device."""
    from labkit.figures import on_front

    if "latency_p99_ns" not in table.columns:
        return []
    lines = []
    for label, group in table.groupby("device_label", sort=False):
        best = on_front(group)
        if len(best):
            lines.append(f"Pareto front of throughput and p99 ({label}):")
        for _, row in best.iterrows():
            point = ", ".join(f"{name}={row[f'knob.{name}']}" for name in axes)
            lines.append(f"  {point}: {count_text(row['throughput'])} items/s, p99 {format_time(row['latency_p99_ns'])}")
    return lines


def _write(path: str, table: "pd.DataFrame", axes: list[str]) -> None:
    """One page with all that can be drawn of the sweep. Raises StoreError where it cannot be written."""
    from labkit.figures import pareto, sweep_figure

    x, *others = (f"knob.{name}" for name in axes)
    colour = others[0] if others else None
    figures = [sweep_figure(table, x, y, colour, "light") for y in FIGURES if y in table.columns]
    figures += [pareto(table, theme="light")] if "latency_p99_ns" in table.columns else []
    pages = [figure.to_html(include_plotlyjs=not place, full_html=False) for place, figure in enumerate(figures)]
    try:
        Path(path).write_text('<!DOCTYPE html><meta charset="utf-8"><title>labkit sweep</title>' + "\n".join(pages), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    say(f"wrote {path}")
