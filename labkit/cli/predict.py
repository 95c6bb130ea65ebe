"""`labkit predict EXPERIMENT --on h200 --on t4`: the same experiment on simulated devices, side by side."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, knob_values, parse_with_experiment, parser
from labkit.cli.main import FAILED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say
from labkit.device import resolve_device
from labkit.device.machine import machine_names
from labkit.runner.workers import Workers
from labkit.units import ABSENT


def main(arguments: list[str]) -> int:
    """Exit code 0 when every prediction was made."""
    flags = parser("predict", "What machines would do: the same experiment on simulated devices.")
    flags.add_argument("--on", action="append", metavar="MACHINE,…", help=f"of: {', '.join(machine_names())} (default: all)")
    flags.add_argument("--costs", metavar="RUN", help="take op times from this measured run, not from the machines' figures")
    flags.add_argument("--steps", type=int, default=200, help="steps to predict (default: 200)")
    add_out(flags)
    add_json(flags)
    given = parse_with_experiment(flags, arguments)
    machines = [name for part in given.on or [] for name in part.split(",")] or machine_names()
    for name in machines:
        resolve_device(f"simulated:{name}")
    costs = lab.stored_run(given.costs, given.out) if given.costs else None
    runs = []
    with progress_bar("predicting") as move, Workers() as workers:
        for place, name in enumerate(machines):
            device = f"simulated:{name}"
            knobs = knob_values(given)
            runs.append(
                lab.run(given.experiment, device=device, steps=given.steps, costs=costs, out=given.out, pool=workers, **knobs)
            )
            move((place + 1) / len(machines))
    if given.json:
        print_json({"runs": [run_json(run) for run in runs]})
    else:
        _print(machines, runs, costs)
    return OK if all(run.record.status == "ok" for run in runs) else FAILED


def _print(machines: list[str], runs: list[lab.Run], costs: lab.Run | None) -> None:
    from labkit.report.table import as_text, side_by_side_table

    good = [run.shown(name) for name, run in zip(machines, runs, strict=True) if run.record.status == "ok"]
    if good:
        print(as_text(side_by_side_table(good, grades=["PREDICTED"] * len(good))))
        source = f"op times measured in {costs.record.id}" if costs else "the machines' figures alone: a rough guide"
        print(f"\npredicted from {source}")
    if runs:
        print(f"saved in {runs[0].path.parent if runs[0].path else ABSENT}")
    for name, run in zip(machines, runs, strict=True):
        if run.record.status != "ok":
            say(f"labkit predict: {name}: {run.record.reason}")
