"""`labkit report RUN… -o report.html`: one self-contained page of some runs."""

from pathlib import Path

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json


def main(arguments: list[str]) -> int:
    """Exit code 0 once the page is written."""
    from labkit.report import write_report

    flags = parser("report", "One self-contained HTML page: figures, tables, verdicts, provenance.")
    flags.add_argument("runs", nargs="+", help='ids, starts or ends of ids, folders, or "last"')
    flags.add_argument("-o", "--output", default="report.html", metavar="FILE", help="default: report.html")
    flags.add_argument("--title", default="labkit report")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    runs = [lab.stored_run(name, given.out) for name in given.runs]
    labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    shown = [run.shown(labels[place] if place < 26 else str(place)) for place, run in enumerate(runs)]
    path = write_report(Path(given.output), given.title, shown, [run.record for run in runs])
    if given.json:
        print_json({"path": str(path), "runs": [run.record.id for run in runs]})
    else:
        print(f"wrote {path}")
    return OK
