"""`labkit demo`: the main job end to end, headless.

Measures synchronous against pipelined training on the best device here, in turns; predicts both for this machine, from op
times measured at a third setting, and for simulated GPUs; prints one table; runs the notebook through papermill; writes a report.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import FAILED, INTERRUPTED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say, say_notes
from labkit.data.locate import datasets_root
from labkit.device import resolve_device
from labkit.device.machine import this_machine_path
from labkit.errors import DataError
from labkit.figures.shown import Shown
from labkit.runner.job import Frame
from labkit.runner.workers import Workers

EXPERIMENT = "pipeline"
SYNCHRONOUS = {"prefetch": 0}
PIPELINED = {"prefetch": 4}
PROBE = {"prefetch": 1}
GPUS = ("h200", "a100", "t4")


@dataclass(frozen=True)
class Parts:
    """What the demo made, in order."""

    both: lab.Compared
    here: tuple[lab.Run, lab.Run]
    elsewhere: dict[str, tuple[lab.Run, lab.Run]]

    def runs(self) -> list[lab.Run]:
        """Every run, the measured ones first."""
        pairs = [(self.both.a, self.both.b), self.here, *self.elsewhere.values()]
        return [run for pair in pairs for run in pair]


def main(arguments: list[str]) -> int:
    """Exit code 0 when every part succeeded."""
    flags = parser("demo", "The main job end to end: measure, predict, notebook, report. Two to three minutes.")
    flags.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    flags.add_argument("--rounds", type=int, default=5, help="how often each side is measured (default: 5)")
    flags.add_argument("--steps", type=int, default=60, help="steps of each side in a round (default: 60)")
    add_out(flags, "demo")
    add_json(flags)
    given = flags.parse_args(arguments)
    lab.check_rounds(given.rounds)
    out = Path(given.out)
    lab.writable(out)
    device = resolve_device(given.device)
    say(f"labkit demo on {device}" + (" (no GPU here)" if given.device == "auto" and device == "cpu" else ""))
    _calibrate_once()
    parts = _measure_and_predict(device, given.rounds, given.steps, out / "runs")
    runs = parts.runs() if isinstance(parts, Parts) else parts
    broken = sorted((run.record.status, run.record.device, run.record.reason) for run in runs if run.record.status != "ok")
    if broken or not isinstance(parts, Parts):
        status, where, reason = broken[-1]  # a failure before a side that was cancelled for it
        say(f"labkit demo: {where}: {status}: {reason}")
        return FAILED if status == "failed" else INTERRUPTED
    rows = _table(parts)
    notebook = _run_notebook(device, out)
    report = _write_report(parts, out)
    _print(parts, rows, [notebook, report], out, given.json)
    return OK


def _calibrate_once() -> None:
    if this_machine_path().is_file():
        say(f"this machine is calibrated already ({this_machine_path()})")
        return
    say("calibrating this machine, once …")
    lab.calibrate(lambda words: say(f"  {words}"))


def _measure_and_predict(device: str, rounds: int, steps: int, out: Path) -> Parts | list[lab.Run]:
    """A, B and a probe at a third setting in turns, and the predictions from the probe's op times.

    The measured runs alone where one of them did not succeed.
    """
    with Workers() as workers:
        with progress_bar("measuring A, B and a probe in turns") as move:

            def on_frame(index: int, side: str, frame: Frame) -> None:
                move((3 * index + frame.share) / (3 * rounds))

            both = lab.compare(
                EXPERIMENT, a=SYNCHRONOUS, b=PIPELINED, beside=PROBE, device=device, steps=steps, rounds=rounds, out=out,
                pool=workers, on_frame=on_frame,
            )  # fmt: skip
        measured = [run for run in (both.a, both.b, both.beside) if run is not None]
        if any(run.record.status != "ok" for run in measured):
            return measured
        probe = measured[-1]
        with progress_bar("predicting") as move:
            here = _predicted("this", probe, steps, out, workers)
            elsewhere = {}
            for place, gpu in enumerate(GPUS):
                move((1 + place) / (1 + len(GPUS)))
                elsewhere[gpu] = _predicted(gpu, None, steps, out, workers)
    return Parts(both, here, elsewhere)


def _predicted(machine: str, costs: lab.Run | None, steps: int, out: Path, workers: Workers) -> tuple[lab.Run, lab.Run]:
    common: dict[str, Any] = {"device": f"simulated:{machine}", "steps": max(steps, 200), "out": out, "pool": workers}
    return (
        lab.run(EXPERIMENT, costs=costs, **common, **SYNCHRONOUS),
        lab.run(EXPERIMENT, costs=costs, **common, **PIPELINED),
    )


def _shown(parts: Parts) -> list[Shown]:
    """Measured and predicted side by side: A and B measured, A and B predicted here, then the GPUs."""
    a, b = "A synchronous", "B pipelined"
    measured = [parts.both.a.shown(a), parts.both.b.shown(b)]
    here = [replace(parts.here[0].shown("A predicted"), predicts=a), replace(parts.here[1].shown("B predicted"), predicts=b)]
    pairs = [(f"A on {gpu}", f"B on {gpu}", runs) for gpu, runs in parts.elsewhere.items()]
    return [*measured, *here, *(shown for a, b, runs in pairs for shown in (runs[0].shown(a), runs[1].shown(b)))]


def _table(parts: Parts) -> list[list[str]]:
    from labkit.report.table import side_by_side_table

    return side_by_side_table(_shown(parts), grades=[run.record.verdict.grade for run in parts.runs()])


def _run_notebook(device: str, out: Path) -> Path:
    from labkit.notebook.execute import execute_notebook

    notebook = datasets_root().parent / "notebooks" / "01_pipelined_training.ipynb"
    if not notebook.is_file():
        raise DataError(f"there is no notebook {notebook}; run the demo from a checkout of labkit")
    say(f"running {notebook.name} through papermill …")
    parameters = {"device": device, "seconds": 2.0, "out": str(out / "runs"), **PIPELINED}
    return execute_notebook(notebook, out / notebook.name, parameters, progress=sys.stderr.isatty())


def _write_report(parts: Parts, out: Path) -> Path:
    from labkit.report import write_report

    shown = _shown(parts)
    records = [run.record for run in parts.runs()]
    return write_report(
        out / "report.html", "Pipelined training: synchronous against pipelined", shown, records,
        comparison=parts.both.comparison.sentence,
    )  # fmt: skip


def _print(parts: Parts, rows: list[list[str]], files: list[Path], out: Path, as_json: bool) -> None:
    from labkit.report.table import as_text

    if as_json:
        print_json(
            {
                "a": run_json(parts.both.a),
                "b": run_json(parts.both.b),
                "comparison": parts.both.comparison.as_dict(),
                "predictions": [run_json(run) for run in parts.runs()[2:]],
                "files": [str(path) for path in files],
            }
        )
        return
    for run in (parts.both.a, parts.both.b):
        say_notes(run)
    print(as_text(rows))
    print(f"\n{parts.both.comparison.sentence}")
    for label, run in (("A", parts.both.a), ("B", parts.both.b)):
        if run.summary is not None:
            print(f"{label}: {run.summary.bottleneck}")
        print(f"{label}: {run.record.verdict.grade}: {'; '.join(run.record.verdict.reasons)}")
    limits = {run.summary.bottleneck for pair in parts.elsewhere.values() for run in pair if run.summary is not None}
    if limits and all(limit.startswith("loading") for limit in limits):
        print("simulated GPUs: loading limits them all; try labkit predict pipeline --prefetch 8 --workers 8 --model large")
    print("\nwrote")
    for path in [*files, out / "runs"]:
        print(f"  {path}")
