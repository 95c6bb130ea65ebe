"""`labkit show RUN`: one run, whole."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.imported import imported_lines
from labkit.cli.main import OK
from labkit.cli.run import print_run
from labkit.cli.words import print_json, run_json
from labkit.figures.numbers import metric_text
from labkit.knobs.text import value_text
from labkit.runner.alerting import alerts_of
from labkit.runner.imported import origin
from labkit.runner.record import RunRecord


def main(arguments: list[str]) -> int:
    """Exit code 0 for any run that can be read, also a failed one."""
    flags = parser("show", "One run: its metrics, verdict, knobs and where it came from.")
    flags.add_argument("run", help='its id, the start or end of one, its folder, or "last"')
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.stored_run(given.run, given.out)
    if given.json:
        print_json(run_json(run))
        return OK
    record = run.record
    if origin(record) is not None and run.summary is not None:
        print("\n".join(imported_lines(run)))
        return OK
    print(f"{record.id}: {record.experiment}, {record.status}{f': {record.reason}' if record.reason else ''}")
    print(f"{'measured' if record.measured else 'simulated'} on {record.device} ({record.device_label}), {record.started_at}")
    print("knobs: " + ", ".join(f"{name}={value_text(value)}" for name, value in record.knobs.items()) + "\n")
    print_run(run)
    for line in (*record.verdict.facts, *_energy_lines(record)):
        print(line)
    for alert in alerts_of(record):
        print(alert.line)
    return OK


def _energy_lines(record: RunRecord) -> list[str]:
    """Energy and cost per item, each with how it was had, or why it is not known."""
    metrics = record.energy_metrics.values()
    return [f"{each.name}: {f'not known: {each.reason}' if each.value is None else f'{metric_text(each)} ({each.definition})'}" for each in metrics]
