"""`labkit run EXPERIMENT`: run it once, save the record, print the metrics, say which alerts fired."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, add_running, knob_values, parse_with_experiment, parser
from labkit.cli.main import ALERTED, FAILED, INTERRUPTED, OK
from labkit.cli.words import (
    print_json,
    run_bar,
    run_json,
    say,
    say_alerts,
    say_device,
    say_notes,
    verdict_words,
)
from labkit.monitor.alerts import EXAMPLE
from labkit.runner.alerting import alerts_of


def main(arguments: list[str]) -> int:
    """Exit code 0 for a run that succeeded, 3 if an alert fired that counts, 1 for a failed one or one that measured nothing, 130 for an interrupted one."""
    flags = parser("run", "Run an experiment once and save its record.")
    add_running(flags, lab.DEFAULT_SECONDS)
    add_out(flags)
    add_json(flags)
    flags.add_argument("--costs", metavar="RUN", help="simulated devices: take op times from this measured run")
    words = f"JSON file of limits that the run is checked against; one that is crossed is exit code 3; example: {EXAMPLE}"
    flags.add_argument("--alerts", metavar="FILE", help=words.replace("%", "%%"))
    given = parse_with_experiment(flags, arguments)
    costs = lab.stored_run(given.costs, given.out) if given.costs else None
    with run_bar(f"{given.experiment} on {given.device}") as on_frame:
        run = lab.run(
            given.experiment, device=given.device, seconds=given.seconds, steps=given.steps, warmup=given.warmup,
            out=given.out, costs=costs, on_frame=on_frame, alerts=given.alerts, **knob_values(given),
        )  # fmt: skip
    say_device(given.device, run)
    if given.json:
        print_json(run_json(run))
    else:
        print_run(run)
    if run.record.status != "ok":
        say(f"labkit run: {run.record.status}: {run.record.reason}")
    say_alerts(run)
    if run.record.status == "ok" and run.summary is None:
        return FAILED
    alerted = any(alert.counts for alert in alerts_of(run.record))
    return {"ok": ALERTED if alerted else OK, "failed": FAILED, "cancelled": INTERRUPTED}[run.record.status]


def print_run(run: lab.Run) -> None:
    """The metrics as a table on stdout, notes on stderr."""
    from labkit.report.table import as_text, side_by_side_table

    say_notes(run)
    if run.record.status == "ok" and run.summary is not None:
        print(as_text(side_by_side_table([run.shown(run.record.experiment)])))
        print()
        print(verdict_words(run))
    elif run.record.status == "ok":
        print(verdict_words(run))
    if run.path is not None:
        print(f"saved in {run.path}")
