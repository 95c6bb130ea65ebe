"""`labkit doctor`: is this machine fit?"""

from dataclasses import asdict

from labkit.cli.flags import add_json, parser
from labkit.cli.main import FAILED, OK
from labkit.cli.words import print_json

SIGNS = {"ok": "✓", "note": "·", "problem": "✗"}


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 where there is a problem."""
    from labkit.runner.doctor import examine

    flags = parser("doctor", "Is this machine fit: Python, torch, CUDA, driver, sensors, memory limits, cores, files, data?")
    add_json(flags)
    given = flags.parse_args(arguments)
    checks = examine()
    if given.json:
        print_json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            advice = f"\n    → {check.advice}" if check.advice else ""
            print(f"{SIGNS[check.state]} {check.name}: {check.words}{advice}")
    return FAILED if any(check.state == "problem" for check in checks) else OK
