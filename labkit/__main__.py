"""`labkit` and `python -m labkit`: the command line."""

import sys


def main() -> None:
    """Run a command and exit with its code."""
    from labkit.cli.main import main as command_line

    sys.exit(command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
