"""Which command, and what its exit code is. Help and a wrong command load nothing but this file.

Exit codes: 0 success, 1 a run that failed or a check that did not hold, 2 wrong input, 3 a run that succeeded but fired an
alert (`labkit run --alerts`), 130 Ctrl-C. Results go to stdout, progress and words to stderr; with --json there is exactly one
JSON object on stdout.
"""

import sys
from importlib import import_module

COMMANDS = {
    "run": "run an experiment once and save its record",
    "compare": "measure two settings in turns and say how they compare",
    "predict": "what machines would do: the same experiment on simulated devices",
    "sweep": "run every combination of some knobs; go on where an earlier start ended",
    "peak": "the highest rate of requests that keeps a promise of latency",
    "list": "the runs of a folder, or with --experiments the experiments and their knobs",
    "show": "one run: its metrics, verdict, knobs and where it came from",
    "import": "read a trace of PyTorch's profiler and save it as a run",
    "why": "where a run's time went: from the ideal to the measured, the critical path, what would help",
    "whatif": "what a change would do to a run; with --measure, beside the measurement",
    "wrong": "measured wrongly on purpose: what the usual mistakes make of a run",
    "profile": "what a model asks of the hardware, and where that lies on a machine's roofline",
    "export": "a run's trace for Perfetto or Chrome, or as a table",
    "report": "one self-contained HTML page of some runs",
    "calibrate": "measure this machine, so that it can be predicted as simulated:this",
    "doctor": "is this machine fit?",
    "demo": "the main job end to end: measure, predict, notebook, report",
    "data": "make a larger set of photos",
}

OK, FAILED, WRONG_INPUT, ALERTED, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return OK
    if arguments[0] in ("-V", "--version"):
        from labkit import __version__

        print(f"labkit {__version__}")
        return OK
    name = arguments[0]
    if name not in COMMANDS:
        print(f"labkit: there is no command {name!r}; there are: {', '.join(COMMANDS)}", file=sys.stderr)
        return WRONG_INPUT
    return _run(name, arguments[1:])


def usage() -> str:
    """The help text."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {words}" for name, words in COMMANDS.items()]
    return "\n".join(["usage: labkit COMMAND …    (labkit COMMAND --help says more)", "", *lines])


def _run(name: str, arguments: list[str]) -> int:
    from labkit.errors import (
        AlertError,
        DataError,
        DeviceError,
        ExperimentError,
        KnobError,
        LabkitError,
        MachineError,
        StoreError,
    )

    command = import_module(f"labkit.cli.{name}")
    wrong_input = (KnobError, DeviceError, ExperimentError, DataError, MachineError, StoreError, AlertError)
    try:
        return command.main(arguments)
    except LabkitError as error:
        print(f"labkit {name}: {error}", file=sys.stderr)
        return WRONG_INPUT if isinstance(error, wrong_input) else FAILED
    except KeyboardInterrupt:
        print(f"labkit {name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone, as `labkit list | head` does
        sys.stderr.close()
        return FAILED
    except OSError as error:
        print(f"labkit {name}: {error}", file=sys.stderr)
        return FAILED
