"""`labkit calibrate`: measure this machine and write its YAML, so that `simulated:this` predicts it."""

from labkit import lab
from labkit.cli.flags import add_json, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json, say
from labkit.device.machine import FIGURES, Machine, this_machine_path
from labkit.runner.probe_passport import detectable
from labkit.units import format_percent, format_rate

ROUNDS = 5


def detectable_words(machine: Machine) -> str | None:
    """`Rounds in turns here show effects from 4 % up (5 rounds), 2.6 % (10).`; None where the noise is not known."""
    noise = machine.get("round_noise_share")
    if noise is None:
        return None
    five, more = (format_percent(detectable(noise, n)) for n in (ROUNDS, 2 * ROUNDS))
    return f"Measured in turns here, {ROUNDS} rounds show effects from {five} up, {2 * ROUNDS} rounds from {more} up."


def main(arguments: list[str]) -> int:
    """Exit code 0 once the file is written."""
    flags = parser("calibrate", "Measure this machine: cores, decoding, memory, copies, arithmetic, launches, wake-ups.")
    add_json(flags)
    given = flags.parse_args(arguments)
    calibration = lab.calibrate(lambda words: say(f"measuring {words} …"))
    machine = calibration.machine
    if given.json:
        print_json({**machine.as_dict(), "notes": calibration.notes, "path": str(this_machine_path())})
        return OK
    print(f"{machine.label}")
    for name, figure in machine.figures.items():
        value = format_rate(figure.value, '').strip()
        print(f"  {name:<28} {value:>10}   {FIGURES[name]}")
    if (words := detectable_words(machine)) is not None:
        print(f"\n{words}")
    for note in calibration.notes:
        say(f"note: {note}")
    print(f"wrote {this_machine_path()}")
    return OK
