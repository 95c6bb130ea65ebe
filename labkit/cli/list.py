"""`labkit list`: the runs of a folder, or the experiments and their knobs."""

from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json
from labkit.experiments import experiment, experiments
from labkit.figures.numbers import count_text
from labkit.figures.shown import ITEMS_PER_S
from labkit.knobs.text import value_text
from labkit.store import BrokenRun, list_runs
from labkit.units import ABSENT


def main(arguments: list[str]) -> int:
    """Always exit code 0, also for an empty folder."""
    flags = parser("list", "The runs of a folder, oldest first; or the experiments.")
    flags.add_argument("--experiments", action="store_true", help="the experiments and their knobs instead")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    rows = _experiments() if given.experiments else _runs(given.out)
    if given.json:
        print_json({"experiments" if given.experiments else "runs": rows})
    else:
        print("\n".join(_experiment_lines(rows) if given.experiments else _run_lines(rows, given.out)))
    return OK


def _runs(out: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for run in list_runs(out):
        if isinstance(run, BrokenRun):
            rows.append({"id": run.path.name, "status": "broken", "reason": run.reason})
            continue
        record = run.record
        throughput = record.metrics.get("throughput") or {}
        rows.append(
            {"id": record.id, "experiment": record.experiment, "status": record.status, "reason": record.reason, "device": record.device,
             "measured": record.measured, "grade": record.verdict.grade, "throughput": throughput.get("value"),
             "unit": throughput.get("unit", ITEMS_PER_S), "file": record.provenance.get("file"),
             "knobs": _turned(record.experiment, record.knobs)}
        )  # fmt: skip
    return rows


def _turned(name: str, knobs: dict[str, object]) -> dict[str, object]:
    """The knobs that are not at their defaults; all of them for an experiment that is not in the catalogue."""
    if name not in experiments():
        return knobs
    defaults = experiment(name).knobs().model_dump()
    return {knob: value for knob, value in knobs.items() if value != defaults.get(knob)}


def _run_lines(rows: list[dict], out: str) -> list[str]:
    if not rows:
        return [f"no runs in {out}"]
    lines = []
    for row in rows:
        if row["status"] != "ok":
            lines.append(f"{row['id']:<36} {row['status']:<9} {row['reason']}")
            continue
        rate = f"{count_text(row['throughput'])} {row['unit']}" if row["throughput"] is not None else ABSENT
        named = row["knobs"] if row["file"] is None else {"file": row["file"]}
        where = f"measured on {row['device']}" if row["measured"] and row["file"] is None else row["device"]
        knobs = " ".join(f"{name}={value_text(value)}" for name, value in named.items())
        lines.append(f"{row['id']:<36} {row['status']:<9} {rate:>14}  {where:<16}  {row['grade']:<9}  {knobs}")
    return lines


def _experiments() -> list[dict[str, object]]:
    rows = []
    for name in experiments():
        entry = experiment(name)
        knobs = [
            {"name": knob, "help": info.description, "allowed": entry.knobs.allowed(knob),
             "default": info.default, "unit": entry.knobs.unit(knob), "live": entry.knobs.is_live(knob)}
            for knob, info in entry.knobs.model_fields.items()
        ]  # fmt: skip
        presets = {preset: dict(values) for preset, values in entry.presets.items()}
        rows.append({"name": name, "question": entry.question, "knobs": knobs, "presets": presets})
    return rows


def _experiment_lines(rows: list[dict]) -> list[str]:
    lines = []
    for row in rows:
        lines += [f"{row['name']}: {row['question']}"]
        for knob in row["knobs"]:
            kind = "live" if knob["live"] else "cold"
            lines.append(f"  {knob['name']:<14} {kind}  {knob['help']} [{knob['allowed']}; {value_text(knob['default'])}]")
        for preset, values in row.get("presets", {}).items():
            lines.append(f"  preset '{preset}': " + " ".join(f"{knob}={value_text(value)}" for knob, value in values.items()))
    return lines
