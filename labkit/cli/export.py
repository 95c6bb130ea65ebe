"""`labkit export RUN --format chrome|csv`: a run's trace for other tools."""

import os
from pathlib import Path

from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json
from labkit.errors import StoreError
from labkit.store import load_run
from labkit.trace.chrome import write_chrome

ENDINGS = {"chrome": ".trace.json", "csv": ".csv"}


def main(arguments: list[str]) -> int:
    """Exit code 0 once the file is written."""
    flags = parser("export", "A run's trace as Chrome/Perfetto JSON (open it in ui.perfetto.dev), or as a table.")
    flags.add_argument("run", help='its id, the start or end of one, its folder, or "last"')
    flags.add_argument("--format", choices=list(ENDINGS), default="chrome")
    flags.add_argument("-o", "--output", metavar="FILE", help="default: the run's id with the format's ending, here")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    stored = load_run(given.run, given.out)
    if stored.trace is None:
        raise StoreError(f"run {stored.record.id} has no trace to export: it {stored.record.status}")
    path = Path(given.output or stored.record.id + ENDINGS[given.format])
    unfinished = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if given.format == "chrome":
            write_chrome(stored.trace, unfinished)
        else:
            stored.trace.frame().to_csv(unfinished, index=False)
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    if given.json:
        print_json({"run": stored.record.id, "format": given.format, "path": str(path), "rows": len(stored.trace)})
    else:
        print(f"wrote {path} ({len(stored.trace)} rows)")
    return OK
