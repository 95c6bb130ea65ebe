"""`labkit wrong RUN`: what the usual mistakes of measuring would have made of a run. For teaching: every wrong number says INVALID."""

from dataclasses import asdict

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json
from labkit.errors import RunFailed
from labkit.figures.mistakes import mistakes_table
from labkit.metrics.mistakes import mistakes


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 for a run that left no trace."""
    flags = parser("wrong", "Measured wrongly on purpose: what the usual mistakes make of a run, beside what is right.")
    flags.add_argument("run", help='a run\'s id, the start or end of one, its folder, or "last"')
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.stored_run(given.run, given.out).checked()
    if run.trace is None:
        raise RunFailed(f"run {run.record.id} has no trace to look into")
    found = mistakes(run.trace, run.record.budget["warmup"])
    if given.json:
        made = [asdict(mistake) | {"factor": mistake.factor, "grade": "INVALID"} for mistake in found]
        print_json({"id": run.record.id, "measured": run.record.measured, "mistakes": made})
        return OK
    print(f"{run.record.id}: {'measured on' if run.record.measured else 'predicted,'} {run.record.device_label}")
    for name, what, right, wrong, factor, why in mistakes_table(found)[1:]:
        print(f"\n{name}: {what}\n  right    {right}\n  {wrong}{f', {factor} of what is right' if factor != '–' else ''}\n  {why}")
    return OK
