"""`labkit wrong RUN`: what the usual mistakes of measuring would have made of a run. For teaching: every wrong number says INVALID."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json
from labkit.errors import RunFailed
from labkit.figures.mistakes import mistakes_table
from labkit.metrics.mistakes import Mistake, mistakes
from labkit.runner.imported import STEPS_PER_S, origin
from labkit.units import ABSENT


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
    found = mistakes(run.trace, run.record.warmup)
    if origin(run.record) is not None:
        found = tuple(replace(mistake, unit=mistake.unit.replace("items/s", STEPS_PER_S)) for mistake in found)
    if given.json:
        made = [asdict(mistake) | {"factor": mistake.factor, "grade": "INVALID"} for mistake in found]
        print_json({"id": run.record.id, "measured": run.record.measured, "mistakes": made})
        return OK
    measured = f"{'measured on' if run.record.measured else 'predicted,'} {run.record.device_label}"
    print(f"{run.record.id}: {origin(run.record) or measured}")
    print("\n".join(_lines(found)))
    return OK


def _lines(found: Sequence[Mistake]) -> list[str]:
    """Each mistake that the run shows, beside what is right; then the others, each with its reason."""
    rows = mistakes_table(found)[1:]
    lines = []
    for (name, what, right, wrong, factor, why), mistake in zip(rows, found, strict=True):
        if mistake.wrong is not None:
            lines += ["", f"{name}: {what}", f"  right    {right}", f"  {wrong}{f', {factor} of what is right' if factor != ABSENT else ''}", f"  {why}"]
    absent = [f"  {mistake.name}: {mistake.reason}" for mistake in found if mistake.wrong is None]
    return [*lines, *(["", "not shown by this run:", *absent] if absent else [])]
