"""`labkit` and `python -m labkit`: the command line."""

import os
import signal
import sys


def main() -> None:
    """Run a command and exit with its code."""
    from labkit.cli.main import main as command_line

    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115  (a closed stderr must not end up on stdout)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being asked to end leaves a record, as Ctrl-C does
    sys.exit(command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
