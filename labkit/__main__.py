"""`labkit` and `python -m labkit`: the command line."""

import os
import signal
import sys


def main() -> None:
    """Run a command and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show × shows ? instead
    signal.signal(signal.SIGTERM, _asked_to_end)
    from labkit.cli.main import main as command_line

    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115  (a closed stderr must not end up on stdout)
    sys.exit(command_line(sys.argv[1:]))


def _asked_to_end(number: int, frame: object) -> None:
    """Being asked to end leaves a record, as Ctrl-C does."""
    from labkit.runner.asked import ask

    ask()
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
